import { execFileSync } from 'node:child_process';
import { runDemo, type DemoRun } from '../scripts/demo.mjs';
import { expect, startTestServerWith, test, type TestServer } from './support/fixtures';
import { editRegistry } from './support/registry';

const postgres = process.env.SLIPFORM_TEST_POSTGRES;
const rows = '[role="row"][aria-rowindex]';

test.skip(postgres === undefined, 'SLIPFORM_TEST_POSTGRES names no database server; cargo xtask test starts one');
// The tests share one server, because the demo runs take longer than each of them.
test.describe.configure({ mode: 'serial' });

let server: TestServer;
let runs: Record<string, DemoRun>;
const session = (name: string, tab = '') => `${server.ui}/sessions/${runs[name]?.session_id}${tab}`;

test.beforeAll(async () => {
  const database = `dashboard_${process.pid}`;
  execFileSync('psql', ['--quiet', '--command', `CREATE DATABASE ${database}`, postgres ?? '']);
  const address = new URL(postgres ?? '');
  address.pathname = `/${database}`;
  server = await startTestServerWith({ args: ['--db', address.href] });
  runs = await runDemo(server.api);
});

test.afterEach(({ page }) => page.close());
test.afterAll(() => server.close());

test('PostgreSQL: lists, attempts, failures, the tree and statistics are shown', async ({ page }) => {
  await page.goto(`${server.ui}/runs`);
  await expect(page.getByText(/all \d+ runs/)).toBeVisible();
  await page.goto(session('retried', '/attempts'));
  await expect(page.getByText('Output Schema: Valid')).toBeVisible();
  await expect(page.getByText('Call 2')).toBeVisible();
  await page.goto(session('failed'));
  await expect(page.getByText('Validation Failed')).toBeVisible();
  await expect(page.getByText('Retry attempts: 1/1 exhausted')).toBeVisible();
  await page.goto(session('orchestrated', '/tree'));
  await expect(page.getByRole('table', { name: 'Runs of the session and its children' }).getByRole('row')).toHaveCount(12);
  await page.goto(`${server.ui}/stats?period=all`);
  await expect(page.getByText('By agent and backend')).toBeVisible();
  await expect(page.getByText(/^One bar per day, with days in UTC, since [^.]+\.$/)).toBeVisible();
  await page.goto(`${server.ui}/gateway?status=failed`);
  await expect(page.getByText('all 2 requests shown')).toBeVisible();
  await page.goto(`${server.ui}/runs?verdict=retried`);
  await expect(page.locator(rows)).toHaveCount(1);
});

test('PostgreSQL: agent and schema are created, edited and deleted', async ({ page }) => {
  await editRegistry(page, server.ui);
});

test('PostgreSQL: run is started, and its session resumed', async ({ page }) => {
  await page.goto(`${server.ui}/runs/new?agent=triage`);
  await page.getByRole('textbox', { name: 'Prompt' }).fill('Login fails');
  await page.getByRole('button', { name: 'Start run' }).click();
  await expect(page.locator('header .verdict')).toContainText('Output Schema: Valid');
  await page.goto(session('text'));
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByLabel('Message').fill('Say when.');
  await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
  await expect(page.getByText('At dawn the harbour was quiet.')).toBeVisible();
  await page.getByLabel('Run:').selectOption(runs.text?.run_id ?? '');
  await expect(page.getByText('The harbour was quiet.', { exact: true })).toBeVisible();
});

test.describe('while a session is deleted', () => {
  // The list may read the run once more, after it was deleted.
  test.use({ allowed: [/404/] });

  test('PostgreSQL: new run is announced, stopped and deleted', async ({ page }) => {
    await page.goto(`${server.ui}/runs?agent=waiter`);
    await expect(page.locator(rows)).toHaveCount(1);
    await expect(page.getByText('live', { exact: true })).toBeVisible();
    const run = await server.start({ agent_name: 'waiter', prompt: 'x' }, 0);
    await page.getByRole('button', { name: '1 new' }).click();
    await page.getByRole('link', { name: `waiter, session ${run.session_id}` }).click();
    await expect(page.getByText('running', { exact: true }).first()).toBeVisible();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('button', { name: 'Stop the run' }).click();
    await expect(page.locator('header .title')).toContainText('stopped');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete the session' }).click();
    await expect(page.getByText(/all \d+ runs/)).toBeVisible();
    const { status } = await fetch(`${server.api}/sessions/${run.session_id}`);
    expect(status).toBe(404);
  });
});
