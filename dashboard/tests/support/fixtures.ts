import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test as base, expect, type Page } from '@playwright/test';
import { demoProject, run, runDemo, startServer, writeProject, type DemoRun, type Project, type Server } from '../../scripts/demo.mjs';
import { serve } from '../../scripts/serve.mjs';

const binary = process.env.SLIPFORM_BIN ?? 'slipform';

/** A Slipform server in a project folder of its own, with the dashboard in front of it. */
export interface TestServer {
  folder: string;
  api: string;
  ui: string;
  start: (body: unknown, wait?: number) => Promise<DemoRun>;
  kill: (signal?: NodeJS.Signals) => Promise<void>;
  restart: () => Promise<void>;
  close: () => Promise<void>;
}

/**
 * Returns the proxy that shows `dist/` if it is wanted; null if the server shows its own dashboard. A binary without one
 * is an error, because the tests would otherwise prove nothing about what users get.
 */
export async function dashboardOf(url: string, wanted = process.env.SLIPFORM_UI ?? 'binary'): Promise<Awaited<ReturnType<typeof serve>> | null> {
  if (wanted === 'dist') return serve(0, url);
  if (wanted !== 'binary') throw new Error(`SLIPFORM_UI is \`${wanted}\`; set it to \`dist\`, or leave it unset for the dashboard of SLIPFORM_BIN`);
  const answer = await fetch(`${url}/ui/`);
  if (answer.status === 200 && (await answer.text()).includes('id="app"')) return null;
  throw new Error(`${binary} has no dashboard at /ui/; build it with \`cargo xtask ui\` first, or test dist/ with SLIPFORM_UI=dist`);
}

interface Start {
  project?: Project;
  /** Changes the project folder before the server starts. */
  prepare?: (folder: string) => void;
  args?: string[];
  /** Whether the test ends the server and starts it again at the same address. */
  restarts?: boolean;
}

export function startTestServer(project?: Project, prepare?: (folder: string) => void): Promise<TestServer> {
  return startTestServerWith({ ...(project ? { project } : {}), ...(prepare ? { prepare } : {}) });
}

export async function startTestServerWith({ project, prepare = () => {}, args = [], restarts = false }: Start): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'slipform-ui-'));
  writeProject(folder, project ?? (await demoProject()));
  prepare(folder);
  let server: Server = await startServer(binary, folder, { args, lasting: restarts });
  const { port } = server;
  const proxy = await dashboardOf(server.url).catch(async (error: unknown) => {
    await server.kill('SIGKILL');
    throw error;
  });
  return {
    folder,
    api: server.url,
    ui: `${proxy?.url ?? server.url}/ui`,
    start: (body, wait = 60) => run(server.url, body, { wait }),
    kill: (signal) => server.kill(signal),
    restart: async () => {
      server = await startServer(binary, folder, { port, args });
    },
    close: async () => {
      proxy?.server.closeAllConnections();
      proxy?.server.close();
      await server.kill('SIGKILL').catch(() => {});
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export interface Demo extends TestServer {
  runs: Record<string, DemoRun>;
  session: (name: string, tab?: string) => string;
  /** A server without agents and runs. */
  empty: () => Promise<TestServer>;
  /** A server with 200 agents in files, and a run that does not end. */
  crowded: () => Promise<TestServer & { running: DemoRun }>;
}

const AGENTS = 200;
const DEPARTMENTS = ['invoice-processing', 'customer-support', 'incident-review', 'contract-check', 'translation'];
/** Agents with long names that differ at their end, as generated ones do. */
function manyAgents(): Record<string, unknown> {
  const agent = (index: number) => {
    const department = DEPARTMENTS[index % DEPARTMENTS.length] as string;
    const blueprint = { description: `Does the ${department.replace('-', ' ')} of office ${index} and answers with the fields that its system needs`, output_schema: { type: 'object' } };
    return [`${department}-for-the-office-in-region-${String(index).padStart(3, '0')}`, index % 4 === 0 ? { ...blueprint, type: 'procedural', command: ['cat'], parameters_as: 'stdin' } : blueprint];
  };
  return Object.fromEntries([...Array.from({ length: AGENTS - 1 }, (_, index) => agent(index)), ['waiter', { type: 'procedural', command: ['sleep', '600'], parameters_as: 'stdin' }]]);
}

/** Starts a server at first use, and closes it if it was used. */
function onDemand<T extends TestServer>(start: () => Promise<T>): { get: () => Promise<T>; close: () => Promise<void> } {
  let started: Promise<T> | null = null;
  return { get: () => (started ??= start()), close: async () => (await started)?.close() };
}

/** Problems of a page that fail a test: console errors, exceptions and violations of the security policy. */
function watch(page: Page, problems: string[], allowed: RegExp[]): void {
  page.on('console', (message) => {
    const text = `${message.text()} ${message.location().url}`;
    if (message.type() === 'error' && !allowed.some((pattern) => pattern.test(text))) problems.push(text);
  });
  page.on('pageerror', (error) => problems.push(error.message));
}

interface TestFixtures {
  /** Messages that a test expects, such as failed requests while it kills the server. */
  allowed: RegExp[];
  watched: void;
}

export const test = base.extend<TestFixtures, { demo: Demo }>({
  demo: [
    async ({}, use) => {
      const server = await startTestServer();
      const runs = await runDemo(server.api);
      const session = (name: string, tab = '') => `${server.ui}/sessions/${runs[name]?.session_id}${tab ? `/${tab}` : ''}`;
      const empty = onDemand(() => startTestServer({ agentFiles: {}, replyFiles: {} }));
      const crowded = onDemand(async () => {
        const other = await startTestServer({ agentFiles: manyAgents(), replyFiles: {} });
        return { ...other, running: await other.start({ agent_name: 'waiter', prompt: 'x' }, 0) };
      });
      await use({ ...server, runs, session, empty: empty.get, crowded: crowded.get });
      for (const used of [server, empty, crowded]) await used.close();
    },
    { scope: 'worker', timeout: 180_000 },
  ],
  allowed: [[], { option: true }],
  watched: [
    async ({ page, allowed }, use) => {
      const problems: string[] = [];
      watch(page, problems, allowed);
      await page.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', (event) => console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
      });
      await use();
      expect(problems, 'console errors and policy violations').toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };
