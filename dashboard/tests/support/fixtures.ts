import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test as base, expect, type Page } from '@playwright/test';
import { run, runDemo, startServer, writeProject, type DemoRun, type Project, type Server } from '../../scripts/demo.mjs';
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

/** Whether the server itself serves `/ui/`; otherwise a small proxy does. */
async function servesDashboard(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/ui/`).catch(() => null);
  return answer?.status === 200 && (await answer.text()).includes('id="app"');
}

interface Start {
  project?: Project;
  /** Changes the project folder before the server starts. */
  prepare?: (folder: string) => void;
  args?: string[];
}

export function startTestServer(project?: Project, prepare?: (folder: string) => void): Promise<TestServer> {
  return startTestServerWith({ ...(project ? { project } : {}), ...(prepare ? { prepare } : {}) });
}

export async function startTestServerWith({ project, prepare = () => {}, args = [] }: Start): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'slipform-ui-'));
  writeProject(folder, project);
  prepare(folder);
  let server: Server = await startServer(binary, folder, { args });
  const { port } = server;
  const own = await servesDashboard(server.url);
  const proxy = own ? null : await serve(0, server.url);
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
      await use({ ...server, runs, session });
      await server.close();
    },
    { scope: 'worker', timeout: 60_000 },
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
