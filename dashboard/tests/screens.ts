import type { Page } from '@playwright/test';
import type { Demo } from './support/fixtures';

export interface Screen {
  name: string;
  address: (demo: Demo) => string;
  /** Text that shows that the screen has loaded. */
  ready: string | RegExp;
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

/** Every screen and tab, in a state with content. */
export const screens: Screen[] = [
  plain('runs', '/runs', /all \d+ runs/),
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
  session('tree', 'orchestrated', 'tree', 'scan-api · scanner'),
  session('contract', 'first', 'contract', 'max retries'),
  plain('new-run', '/runs/new?agent=invoices', 'Document'),
  plain('agents', '/agents', 'Shipped with Slipform'),
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
];

/** Opens a screen and waits until it shows its content and its editors. */
export async function open(page: Page, screen: Screen, demo: Demo): Promise<void> {
  await page.goto(screen.address(demo));
  await page.getByText(screen.ready).first().waitFor();
  await screen.prepare?.(page);
  await page.waitForFunction(() => [...document.querySelectorAll('.editor')].every((host) => host.shadowRoot?.querySelector('.cm-content')));
}
