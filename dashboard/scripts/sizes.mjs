// Measures the gzip sizes of the built assets and fails when a budget is exceeded.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const KB = 1024;
const budgets = { 'first load': 90 * KB, editor: 180 * KB, total: 400 * KB };
const dist = fileURLToPath(new URL('../dist', import.meta.url));
const gzip = (path) => gzipSync(readFileSync(path), { level: 9 }).length;

const files = readdirSync(join(dist, 'assets')).filter((name) => !name.endsWith('.gz'));
const assets = new Map(files.map((name) => [name, gzip(join(dist, 'assets', name))]));
const page = readFileSync(join(dist, 'index.html'), 'utf8');
const sum = (names) => names.reduce((total, name) => total + (assets.get(name) ?? 0), 0);
const names = [...assets.keys()];

/** Adds a script, its style sheet and everything that it imports statically. */
function collect(name, into) {
  if (into.has(name)) return into;
  into.add(name);
  if (!name.endsWith('.js')) return into;
  const source = readFileSync(join(dist, 'assets', name), 'utf8');
  for (const [, imported] of source.matchAll(/(?:from|import)\s*["'`]\.\/([^"'`]+)["'`]/g)) collect(imported, into);
  const stem = name.replace(/-[^-]+\.js$/, '-');
  for (const style of names.filter((other) => other.endsWith('.css') && other.startsWith(stem))) into.add(style);
  return into;
}

// The home screen is part of the first load although its chunk is requested by the entry script.
const entries = names.filter((name) => page.includes(name) || /^Runs-/.test(name));
const first = [...entries.reduce((all, name) => collect(name, all), new Set())];
const measured = {
  'first load': sum(first) + gzip(join(dist, 'index.html')),
  editor: sum(names.filter((name) => /^editor-/.test(name))),
  total: sum(names) + gzip(join(dist, 'index.html')),
};

let failed = false;
for (const [name, size] of Object.entries(measured)) {
  const over = size > budgets[name];
  failed ||= over;
  console.log(`${name}: ${(size / KB).toFixed(1)} KB gzip of ${budgets[name] / KB} KB${over ? ' (over budget)' : ''}`);
}
process.exit(failed ? 1 : 0);
