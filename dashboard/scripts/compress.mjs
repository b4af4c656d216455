// Compresses the files of `dist/`, which the binary embeds in both forms.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, gzipSync } from 'node:zlib';

const dist = fileURLToPath(new URL('../dist', import.meta.url));

for (const name of readdirSync(dist, { recursive: true })) {
  const path = join(dist, name);
  if (!statSync(path).isFile() || path.endsWith('.gz')) continue;
  const content = readFileSync(path);
  const compressed = gzipSync(content, { level: constants.Z_BEST_COMPRESSION });
  if (compressed.length < content.length) writeFileSync(`${path}.gz`, compressed);
}
