// Rejects constructs that would let model text become markup, and files that are too long to review.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const LINES_MAX = 500;
const forbidden = [
  [/\{@html/, '`{@html}` turns text into markup; render text nodes'],
  [/\b(inner|outer)HTML\b/, 'assigning markup is forbidden; render text nodes'],
  [/insertAdjacentHTML|document\.write|DOMParser/, 'parsing markup is forbidden; render text nodes'],
  [/\sstyle="/, 'a style attribute violates the content security policy; use a class or `style:`'],
  [/https?:\/\/registry\./, 'a registry host is machine configuration'],
];

function* files(folder) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) yield* files(path);
    else if (/\.(svelte|ts|mjs|css|html)$/.test(name) && name !== 'schema.d.ts') yield path;
  }
}

const problems = [];
for (const path of ['src', 'tests'].flatMap((name) => [...files(join(root, name))])) {
  const lines = readFileSync(path, 'utf8').split('\n');
  if (lines.length > LINES_MAX) problems.push(`${relative(root, path)}: ${lines.length} lines; the limit is ${LINES_MAX}`);
  lines.forEach((line, index) => {
    for (const [pattern, reason] of forbidden) {
      if (pattern.test(line)) problems.push(`${relative(root, path)}:${index + 1}: ${reason}`);
    }
  });
}
for (const problem of problems) console.error(problem);
process.exit(problems.length === 0 ? 0 : 1);
