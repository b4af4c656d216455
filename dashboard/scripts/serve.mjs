// Serves `dist/` under `/ui/` with the production headers and forwards every other request to a Slipform server.
//
//   node scripts/serve.mjs [PORT] [API_URL]
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer, request as send } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const dist = fileURLToPath(new URL('../dist', import.meta.url));
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types svelte-trusted-html',
].join('; ');

function asset(path, response) {
  const wanted = normalize(join(dist, decodeURIComponent(path.slice('/ui/'.length))));
  const found = wanted.startsWith(dist) && existsSync(wanted) && statSync(wanted).isFile();
  if (!found && path.startsWith('/ui/assets/')) return response.writeHead(404).end();
  const file = found ? wanted : join(dist, 'index.html');
  response.writeHead(200, {
    'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
    'content-security-policy': POLICY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': file.includes('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
  });
  createReadStream(file).pipe(response);
}

function forward(api, incoming, response) {
  const headers = { ...incoming.headers, host: api.host };
  if (headers.origin) headers.origin = api.origin;
  const outgoing = send({ host: api.hostname, port: api.port, path: incoming.url, method: incoming.method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
    answer.on('error', () => response.destroy());
  });
  outgoing.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
  response.on('close', () => outgoing.destroy());
  incoming.pipe(outgoing);
}

/**
 * Starts the server and resolves with its address; `api` may be a function so that a test can move the API. `intercept`
 * answers a request itself if it returns true.
 */
export function serve(port, api, intercept = () => false) {
  const server = createServer((incoming, response) => {
    const path = new URL(incoming.url ?? '/', 'http://localhost').pathname;
    if (path === '/' || path === '/ui') return response.writeHead(308, { location: '/ui/' }).end();
    if (path.startsWith('/ui/')) return asset(path, response);
    if (intercept(path, response)) return undefined;
    forward(new URL(typeof api === 'function' ? api() : api), incoming, response);
  });
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => resolve({ url: `http://127.0.0.1:${server.address().port}`, server }));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [port = '8766', api = process.env.SLIPFORM_URL ?? 'http://127.0.0.1:8765'] = process.argv.slice(2);
  console.log(`${(await serve(Number(port), api)).url}/ui/ -> ${api}`);
}
