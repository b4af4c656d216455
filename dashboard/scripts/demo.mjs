// Creates a project with recorded replies, starts `slipform serve` in it, and runs every kind of agent once.
//
//   SLIPFORM_BIN=path/to/slipform node scripts/demo.mjs [FOLDER]
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { agents, gatewaySettings, replies, requests, runs } from './demo-data.mjs';
import * as failures from './demo-failures.mjs';
import { startModel } from './model.mjs';

const isMain = process.argv[1] === fileURLToPath(import.meta.url);

/** Returns the demo project, after starting the server of its models. */
export async function demoProject() {
  return {
    agentFiles: { ...agents, ...failures.agents },
    replyFiles: { ...replies, ...failures.replies },
    backends: failures.backends(await startModel()),
    settings: gatewaySettings,
  };
}

/** Writes agents, replies and settings; every backend has a tier of its own. */
export function writeProject(folder, { agentFiles, replyFiles, backends = {}, settings = '' }) {
  mkdirSync(join(folder, 'agents'), { recursive: true });
  for (const [name, blueprint] of Object.entries(agentFiles)) {
    writeFileSync(join(folder, 'agents', `${name}.json`), JSON.stringify({ name, ...blueprint }, null, 2));
  }
  const all = { ...backends };
  for (const [name, lines] of Object.entries(replyFiles)) {
    writeFileSync(join(folder, `${name}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    all[name] = `kind = "replay"\nreplies = "${name}.jsonl"\nmodel = "${name}-8b"\n`;
  }
  const names = Object.keys(all);
  const sections = names.map((name) => `[backends.${name}]\n${all[name]}`);
  const first = Object.keys(replyFiles)[0] ?? names[0];
  writeFileSync(join(folder, 'poem.txt'), 'Concrete takes the shape\nof what it was poured into.\n');
  writeFileSync(join(folder, 'slipform.toml'), [first ? `default_backend = "${first}"\n` : '', settings, ...sections, names.length ? `[tiers]\n${names.map((name) => `${name} = "${name}"\n`).join('')}` : ''].join('\n'));
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Calls an action until it returns something other than null, undefined and false, and returns that. */
async function until(what, action, { seconds = 60, every = 50 } = {}) {
  for (const end = Date.now() + seconds * 1_000; Date.now() < end; await pause(every)) {
    const value = await action();
    if (value) return value;
  }
  throw new Error(`${what}: not within ${seconds} seconds`);
}

/** Starts the server once, and resolves when it is ready. The server says on stderr where it listens. */
async function launch(binary, folder, port, args) {
  const child = spawn(binary, ['serve', '--listen', `127.0.0.1:${port}`, ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  let ended = null;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.once('error', (error) => (ended = error));
  // After `close`, unlike `exit`, all output has been read.
  child.once('close', () => (ended ??= new Error(`slipform serve did not start: ${log}`)));
  child.stdout.on('data', (text) => (log += text));
  child.stderr.on('data', (text) => (log += text));
  const untilStarted = (what, action) => until(what, () => {
    if (ended) throw ended;
    return action();
  });
  try {
    const url = await untilStarted('address of slipform serve', () => /listening on (http:\/\/[\d.]+:\d+)/.exec(log)?.[1]);
    await untilStarted('readiness of slipform serve', () => fetch(`${url}/readyz`).then((answer) => answer.ok || answer.status === 401).catch(() => false));
    const kill = async (signal = 'SIGTERM') => {
      child.kill(signal);
      await exited;
    };
    return { url, port: Number(new URL(url).port), child, kill, log: () => log };
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
}

/** The start of the range from which systems choose ports, for `--listen 127.0.0.1:0` and outgoing connections. */
const EPHEMERAL_FIRST = 32_768;

/** Returns a random port that the system gives to no other process while a test restarts its server. */
const lastingPort = () => EPHEMERAL_FIRST - 1 - Math.floor(Math.random() * 12_000);

/**
 * Starts the server and resolves when it is ready. `kill` ends it with a signal and waits for its exit. Without `port`
 * the system chooses one; `lasting` chooses one that a later start can use again.
 */
export async function startServer(binary, folder, { port = 0, lasting = false, args = [] } = {}) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await launch(binary, folder, lasting ? lastingPort() : port, args);
    } catch (error) {
      if (attempt === 20 || !/address (is )?(already )?in use/i.test(error.message)) throw error;
      await pause(250);
    }
  }
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

/** Sends a request to the gateway as an OpenAI client does, and returns its id when the response has ended. */
export async function chat(url, body, { headers = {} } = {}) {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  await answer.text();
  return answer.headers.get('x-request-id');
}

/** Submits a run, stops it, and returns it when it has ended. */
async function stopRun(url, body) {
  const { run_id } = await run(url, body, { wait: 0 });
  await fetch(`${url}/runs/${run_id}/stop`, { method: 'POST' });
  return until(`end of ${run_id}`, async () => {
    const value = await (await fetch(`${url}/runs/${run_id}`)).json();
    return value.finished_at ? value : null;
  });
}

/** Performs the demo runs one after another, then the requests to the gateway, and returns the runs by name. */
export async function runDemo(url) {
  const done = {};
  for (const [name, body] of Object.entries({ ...failures.runs, ...runs })) done[name] = await run(url, body);
  done.stopped = await stopRun(url, failures.stopped);
  const ids = [];
  for (const body of requests) ids.push(await chat(url, body));
  // The server stores a request after its response has ended.
  await until('requests of the gateway', async () => {
    const page = await (await fetch(`${url}/gateway/requests`)).json();
    const listed = new Set(page.requests.map((request) => request.request_id));
    return ids.every((id) => listed.has(id));
  });
  return done;
}

if (isMain) {
  const folder = process.argv[2] ?? mkdtempSync(join(tmpdir(), 'slipform-demo-'));
  writeProject(folder, await demoProject());
  const server = await startServer(process.env.SLIPFORM_BIN ?? 'slipform', folder, process.env.PORT ? { port: Number(process.env.PORT) } : {});
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => server.kill().then(() => process.exit(0)));
  for (const [name, done] of Object.entries(await runDemo(server.url))) {
    console.log(`${name}: ${done.session_id} ${done.status} ${done.error?.type ?? ''}`);
  }
  console.log(`${server.url} (${folder})`);
}
