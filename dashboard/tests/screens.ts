import type { Page } from '@playwright/test';
import type { Demo } from './support/fixtures';

export interface Screen {
  name: string;
  address: (demo: Demo) => string | Promise<string>;
  /** Text that shows that the screen has loaded. */
  ready: string | RegExp;
  /** Called before the page is opened. */
  before?: (page: Page) => Promise<void>;
  prepare?: (page: Page) => Promise<void>;
}

const session = (name: string, run: string, tab: string, ready: string | RegExp, prepare?: Screen['prepare']): Screen => ({
  name,
  address: (demo) => demo.session(run, tab),
  ready,
  ...(prepare ? { prepare } : {}),
});
const plain = (name: string, path: string, ready: string | RegExp, prepare?: Screen['prepare']): Screen => ({
  name,
  address: (demo) => demo.ui + path,
  ready,
  ...(prepare ? { prepare } : {}),
});

/** A dialog of the session screen, which a button opens. */
const dialog = (name: string, address: Screen['address'], button: string): Screen => ({
  name: `dialog-${name}`,
  address,
  ready: 'Result',
  prepare: async (page) => {
    await page.getByRole('button', { name: button, exact: true }).click();
    await page.getByRole('dialog').waitFor();
  },
});

/** The failed request of the screen in its error state, as the browser reports it. */
export const expectedErrors = [/status of 500 .*\/schemas$/];

/** Screens in states without content. */
const states: Screen[] = [
  { name: 'first-run', address: async (demo) => (await demo.empty()).ui, ready: 'no runs yet: three steps to the first one' },
  {
    name: 'loading',
    address: (demo) => `${demo.ui}/runs`,
    ready: 'loading runs',
    before: async (page) => void (await page.route((url) => url.pathname === '/runs', () => {})),
  },
  {
    name: 'error',
    address: (demo) => `${demo.ui}/schemas`,
    ready: 'the store is unavailable',
    before: async (page) => {
      const json = { error: 'Internal', message: 'the store is unavailable: database or disk is full' };
      await page.route((url) => url.pathname === '/schemas', (route) => route.fulfill({ status: 500, json }));
    },
  },
];

/** Every screen and tab, in a state with content unless its name says otherwise. */
export const screens: Screen[] = [
  plain('runs', '/runs', /all \d+ runs/),
  plain('runs-failed', '/runs?status=failed', /all \d+ runs/),
  plain('runs-filtered', '/runs?status=failed&verdict=retried', 'no run matches these filters'),
  session('session-result', 'first', '', 'The disk of build-7 is full.'),
  session('session-failed', 'failed', '', 'Retry attempts: 1/1 exhausted', (page) => page.getByRole('button', { name: 'Salvage' }).click()),
  session('session-large', 'large', '', 'the download is complete'),
  session('attempts-repaired', 'repaired', 'attempts', 'satisfies the schema'),
  session('attempts-retried', 'retried', 'attempts', 'Call 2'),
  session('attempts-lenient', 'lenient', 'attempts', 'satisfies the schema'),
  session('attempts-escalated', 'escalated', 'attempts', 'Call 3'),
  session('attempts-tools', 'delegated', 'attempts', 'Call 3'),
  session('journal', 'retried', 'journal', 'the run completed', (page) => page.getByText('the reply violates the schema').click()),
  session('tree', 'orchestrated', 'tree', 'scan-billing · scanner'),
  session('contract', 'first', 'contract', 'max retries'),
  dialog('resume', (demo) => demo.session('first'), 'Resume'),
  dialog('delete', (demo) => demo.session('first'), 'Delete'),
  dialog('stop', async (demo) => {
    const { ui, running } = await demo.crowded();
    return `${ui}/sessions/${running.session_id}`;
  }, 'Stop'),
  plain('new-run', '/runs/new?agent=invoices', 'Document'),
  plain('gateway', '/gateway', /all \d+ requests/),
  plain('gateway-request', '/gateway?status=failed', /all \d+ requests/, (page) => page.getByRole('button', { name: /^gpt-4o-mini, request/ }).click()),
  plain('gateway-connect', '/gateway', /all \d+ requests/, async (page) => {
    await page.getByRole('button', { name: 'Connect a client' }).click();
    await page.getByText('base_url=').waitFor();
  }),
  plain('gateway-filtered', '/gateway?backend=none', 'no request matches these filters'),
  plain('agents', '/agents', /all \d+ agents shown/),
  { name: 'agents-many', address: async (demo) => `${(await demo.crowded()).ui}/agents`, ready: '211 agents' },
  plain('agent-general', '/agents/triage', 'System prompt'),
  plain('agent-input', '/agents/invoices/input', 'Input Schema (JSON Schema)'),
  plain('agent-output', '/agents/triage/output', 'Validate Schema'),
  plain('agent-mcp', '/agents/triage/mcp', 'no MCP server'),
  plain('agent-tools', '/agents/lead/tools', 'counter'),
  plain('agent-source', '/agents/triage/source', 'Blueprint'),
  plain('agent-runs', '/agents/triage/runs', 'all runs of this agent'),
  plain('agent-new', '/agents?new=1&from=triage', 'Copy of triage'),
  plain('schemas', '/schemas', 'universal-agent-response'),
  plain('schema-new', '/schemas?new=1', 'Create schema'),
  plain('schema', '/schemas/universal-agent-response', 'Used by'),
  plain('check', '/check', 'nothing checked yet', async (page) => {
    await page.getByRole('button', { name: 'Load an example' }).click();
    await page.getByText('6 repairs').waitFor();
  }),
  plain('stats', '/stats', 'By agent and backend'),
  plain('system', '/system', 'Backends'),
  plain('login', '/login', 'Log in to Slipform'),
  plain('not-found', '/nowhere', 'no screen has this address'),
  ...states,
];

/** Opens a screen and waits until it shows its content and its editors. */
export async function open(page: Page, screen: Screen, demo: Demo): Promise<void> {
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await screen.before?.(page);
  await page.goto(await screen.address(demo));
  await page.getByText(screen.ready).first().waitFor();
  await screen.prepare?.(page);
  await page.waitForFunction(() => [...document.querySelectorAll('.editor')].every((host) => host.shadowRoot?.querySelector('.cm-content')));
}
