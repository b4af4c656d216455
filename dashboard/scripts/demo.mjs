// Creates a project with recorded replies, starts `slipform serve` in it, and runs every kind of agent once.
//
//   SLIPFORM_BIN=path/to/slipform node scripts/demo.mjs [FOLDER]
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { agents, replies, runs } from './demo-data.mjs';

const isMain = process.argv[1] === fileURLToPath(import.meta.url);

/** Writes agents, replies and settings; every agent with replies has a tier and a backend of its own. */
export function writeProject(folder, { agentFiles = agents, replyFiles = replies, settings = '' } = {}) {
  mkdirSync(join(folder, 'agents'), { recursive: true });
  for (const [name, blueprint] of Object.entries(agentFiles)) {
    writeFileSync(join(folder, 'agents', `${name}.json`), JSON.stringify({ name, ...blueprint }, null, 2));
  }
  const backends = Object.entries(replyFiles).map(([name, lines]) => {
    writeFileSync(join(folder, `${name}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    return `[backends.${name}]\nkind = "replay"\nreplies = "${name}.jsonl"\nmodel = "${name}-8b"\n`;
  });
  const tiers = Object.keys(replyFiles).map((name) => `${name} = "${name}"`);
  const [name] = Object.keys(replyFiles);
  const first = name ? `default_backend = "${name}"\n` : '';
  writeFileSync(join(folder, 'poem.txt'), 'Concrete takes the shape\nof what it was poured into.\n');
  writeFileSync(join(folder, 'slipform.toml'), [first, settings, ...backends, tiers.length ? `[tiers]\n${tiers.join('\n')}\n` : ''].join('\n'));
}

export function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Starts the server and resolves when it is ready. `kill` ends it with a signal and waits for its exit. */
export async function startServer(binary, folder, { port, args = [] } = {}) {
  const address = `127.0.0.1:${port ?? (await freePort())}`;
  const child = spawn(binary, ['serve', '--listen', address, ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  child.stdout.on('data', (text) => (log += text));
  child.stderr.on('data', (text) => (log += text));
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const url = `http://${address}`;
  for (let attempt = 0; ; attempt += 1) {
    const ready = await fetch(`${url}/readyz`).then((answer) => answer.ok || answer.status === 401).catch(() => false);
    if (ready) break;
    if (child.exitCode !== null || attempt > 600) throw new Error(`slipform serve did not start: ${log}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const kill = async (signal = 'SIGTERM') => {
    child.kill(signal);
    await exited;
  };
  return { url, port: Number(address.split(':')[1]), child, kill, log: () => log };
}

/** Sends a run request and returns the run when it has ended. */
export async function run(url, body, { wait = 60, headers = {} } = {}) {
  const answer = await fetch(`${url}/runs${wait ? `?wait=${wait}` : ''}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const value = await answer.json();
  if (!answer.ok) throw new Error(`POST /runs answered ${answer.status}: ${JSON.stringify(value)}`);
  return value;
}

/** Runs the demo runs one after another and returns them by name. */
export async function runDemo(url) {
  const done = {};
  for (const [name, body] of Object.entries(runs)) done[name] = await run(url, body);
  return done;
}

if (isMain) {
  const folder = process.argv[2] ?? mkdtempSync(join(tmpdir(), 'slipform-demo-'));
  writeProject(folder);
  const server = await startServer(process.env.SLIPFORM_BIN ?? 'slipform', folder, process.env.PORT ? { port: Number(process.env.PORT) } : {});
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => server.kill().then(() => process.exit(0)));
  for (const [name, done] of Object.entries(await runDemo(server.url))) {
    console.log(`${name}: ${done.session_id} ${done.status} ${done.error?.type ?? ''}`);
  }
  console.log(`${server.url} (${folder})`);
}
