import type { Page } from '@playwright/test';
import { expect, test } from './support/fixtures';

const TOTAL = 100_000;
const NEWEST = Date.UTC(2026, 5, 1, 12);
const INTERVAL = 60_000;

const createdAt = (index: number) => NEWEST - index * INTERVAL;
const run = (index: number) => ({
  run_id: `run_${index.toString(16).padStart(12, '0')}`,
  session_id: `ses_${index.toString(16).padStart(12, '0')}`,
  agent_name: `agent-${index}`,
  type: 'start_session',
  status: index % 7 === 0 ? 'failed' : 'completed',
  error: index % 7 === 0 ? { type: 'timeout', message: 'the run reached its time limit' } : null,
  verdict: index % 7 === 0 ? null : 'first_pass',
  retry_count: 0,
  attempts: 1,
  backend: 'local',
  tokens: { input: 100, output: 20 },
  created_at: new Date(createdAt(index)).toISOString(),
  started_at: new Date(createdAt(index)).toISOString(),
  finished_at: new Date(createdAt(index) + 900).toISOString(),
});

/** Answers `GET /runs` with pages of 100,000 runs, one for every minute. `scale` makes pages larger than asked for. */
async function serveRuns(page: Page, scale = 1): Promise<{ read: number; older: number }> {
  const counter = { read: 0, older: 0 };
  await page.route((url) => url.pathname === '/runs', (route) => {
    counter.read += 1;
    const query = new URL(route.request().url()).searchParams;
    if (query.has('after')) counter.older += 1;
    const before = query.get('created_before');
    const start = before ? Math.max(0, Math.floor((NEWEST - Date.parse(before)) / INTERVAL) + 1) : 0;
    const first = Number(query.get('after') ?? start);
    const last = Math.min(TOTAL, first + Number(query.get('limit') ?? 100) * scale);
    const runs = Array.from({ length: last - first }, (_, index) => run(first + index));
    return route.fulfill({ json: { runs, next: last < TOTAL ? String(last) : null } });
  });
  return counter;
}

test('100,000 rows stay below 1,500 elements, and any page is reachable', async ({ page, demo }) => {
  await serveRuns(page, 10);
  await page.goto(`${demo.ui}/runs`);
  await expect(page.getByRole('link', { name: 'agent-0,' })).toBeVisible();
  const list = page.locator('.viewport');
  const last = page.getByRole('link', { name: `agent-${TOTAL - 1},` });
  await expect(async () => {
    await list.evaluate((element) => (element.scrollTop = element.scrollHeight));
    expect(await page.locator('*').count()).toBeLessThan(1_500);
    await expect(last).toBeVisible({ timeout: 50 });
  }).toPass({ intervals: [10], timeout: 80_000 });
  await list.evaluate((element) => (element.scrollTop = element.scrollHeight / 2));
  await expect(page.getByRole('link', { name: /agent-(49|50)\d{3},/ }).first()).toBeVisible();
  expect(await page.locator('*').count()).toBeLessThan(1_500);
});

test.describe('with sessions that the server does not have', () => {
  test.use({ allowed: [/404/] });

  test('back shows the list as it was left', async ({ page, demo }) => {
    const counter = await serveRuns(page, 10);
    await page.goto(`${demo.ui}/runs`);
    const row = page.getByRole('link', { name: 'agent-3000,' });
    const list = page.locator('.viewport');
    await expect(async () => {
      await list.evaluate((element) => (element.scrollTop = 3_000 * 40));
      await expect(row).toBeVisible({ timeout: 50 });
    }).toPass({ intervals: [10] });
    const top = await list.evaluate((element) => element.scrollTop);
    await row.click();
    await expect(page.getByRole('heading', { name: 'Session' })).toBeVisible();
    const { older } = counter;
    await page.goBack();
    await expect(row).toBeFocused();
    expect(await list.evaluate((element) => element.scrollTop)).toBe(top);
    await page.getByLabel('Status').selectOption('failed');
    await expect(page.getByRole('link', { name: 'agent-0,' })).toBeInViewport();
    await page.goBack();
    await expect(row).toBeInViewport();
    expect(counter.older).toBe(older);
    // A selected row that is no longer visible does not pull the list back.
    const last = page.getByRole('link', { name: 'agent-1000,' });
    await list.evaluate((element) => (element.scrollTop = 1_000 * 40));
    await expect(last).toBeVisible();
    await page.getByRole('link', { name: 'Agents' }).click();
    await expect(page.getByRole('heading', { name: 'Agents', exact: true })).toBeVisible();
    await page.goBack();
    await expect(last).toBeInViewport();
    // A link is a visit of its own, which starts at the newest run.
    await page.getByRole('link', { name: 'Agents' }).click();
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Runs' }).click();
    await expect(page.getByRole('link', { name: 'agent-0,' })).toBeInViewport();
  });
});

test.describe('in the time zone of the browser', () => {
  test.use({ timezoneId: 'America/New_York' });

  test('jump to a date shows its last run with one request, and where the list stands', async ({ page, demo }) => {
    const counter = await serveRuns(page);
    await page.goto(`${demo.ui}/runs?status=completed`);
    await expect(page.getByRole('link', { name: 'agent-0,' })).toBeVisible();
    await page.getByRole('heading', { name: 'Runs' }).click();
    await page.keyboard.press('d');
    const date = page.getByLabel('Jump to date');
    await expect(date).toBeFocused();
    const before = counter.read;
    await date.fill('2026-04-10');
    await expect(page).toHaveURL(/status=completed&before=2026-04-11T00%3A00$/);
    // The last minute of 10 April in New York, four hours behind UTC.
    const index = (NEWEST - Date.UTC(2026, 3, 11, 3, 59)) / INTERVAL;
    await expect(page.getByRole('link', { name: `agent-${index},` })).toBeVisible();
    expect(counter.read - before).toBeLessThanOrEqual(2);
    await expect(page.getByText('at 10 Apr 2026, 23:59')).toBeVisible();
    await page.locator('.viewport').evaluate((element) => (element.scrollTop = 40 * 60));
    await expect(page.getByText('at 10 Apr 2026, 22:59')).toBeVisible();
    await page.reload();
    await expect(date).toHaveValue('2026-04-10');
    await page.getByRole('button', { name: 'Newest' }).click();
    await expect(page.getByRole('link', { name: 'agent-0,' })).toBeVisible();
    await expect(page).toHaveURL(/\/runs\?status=completed$/);
    await expect(page.getByText(/^at /)).toHaveCount(0);
  });
});

test.describe('while the server fails', () => {
  test.use({ allowed: [/500/] });

  const unavailable = { status: 500, json: { error: 'Internal', message: 'the store is unavailable' } };

  test('a failed older page is read again on request only', async ({ page, demo }) => {
    await serveRuns(page);
    let failed = 0;
    let isFailing = true;
    await page.route((url) => url.pathname === '/runs' && url.searchParams.has('after'), (route) => {
      if (!isFailing) return route.fallback();
      failed += 1;
      return route.fulfill(unavailable);
    });
    await page.goto(`${demo.ui}/runs`);
    const list = page.locator('.viewport');
    const message = page.getByText('older runs could not be loaded');
    await list.evaluate((element) => (element.scrollTop = element.scrollHeight));
    await expect(message).toBeVisible();
    // Every frame in which the list asked again would be one more request.
    await list.evaluate((element) => (element.scrollTop = 0));
    await list.evaluate((element) => (element.scrollTop = element.scrollHeight));
    await expect(message).toBeVisible();
    expect(failed).toBe(1);
    isFailing = false;
    await page.getByRole('button', { name: 'Try again' }).click();
    await list.evaluate((element) => (element.scrollTop = element.scrollHeight));
    await expect(page.getByRole('link', { name: 'agent-599,' })).toBeAttached();
  });

  test('a failed filter change shows the error instead of the old rows', async ({ page, demo }) => {
    await page.goto(`${demo.ui}/runs`);
    await expect(page.getByText(/all \d+ runs/)).toBeVisible();
    let isFailing = true;
    await page.route((url) => url.pathname === '/runs', (route) => (isFailing ? route.fulfill(unavailable) : route.fallback()));
    await page.getByRole('button', { name: 'More filters' }).click();
    await page.getByLabel('Failure type').selectOption('tool failed');
    await expect(page.getByRole('alert')).toContainText('the store is unavailable');
    await expect(page.locator('[role="row"][aria-rowindex]')).toHaveCount(0);
    isFailing = false;
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect(page.getByText('1 run shown')).toBeVisible();
    await expect(page.locator('[role="row"][aria-rowindex]')).toContainText('tool failed');
  });
});

test('200 agents with long names can be filtered and walked', async ({ page, demo }) => {
  const agent = (index: number) => {
    const name = `${['invoice-processing', 'customer-support'][index % 2]}-for-the-regional-office-in-north-western-europe`.slice(0, 56) + `-${String(index).padStart(3, '0')}`;
    return { name, description: `Reads documents and answers with the fields that the accounting system of office ${index} needs`, type: index % 4 === 0 ? 'procedural' : 'autonomous', source: 'file', path: `agents/${name}.json`, problems: [], warnings: [] };
  };
  await page.route(/\/agents$/, (route) => (route.request().resourceType() === 'document' ? route.continue() : route.fulfill({ json: Array.from({ length: 200 }, (_, index) => agent(index)) })));
  for (const width of [1_280, 390]) {
    await page.setViewportSize({ width, height: 860 });
    await page.goto(`${demo.ui}/agents`);
    await expect(page.getByText('200 agents', { exact: true })).toBeVisible();
    expect(await page.locator('*').count()).toBeLessThan(1_500);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
    // The end of the name, in which it differs from the others, is visible.
    const end = page.locator('[aria-rowindex="2"] .end').first();
    await expect(end).toBeInViewport({ ratio: 1 });
    await expect(end).toContainText('000');
  }
  await page.keyboard.press('/');
  await page.keyboard.type('customer 199');
  await expect(page.getByText('1 of 200 agents')).toBeVisible();
  await expect(page).toHaveURL(/q=customer\+199/);
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await expect(page.getByRole('link', { name: agent(199).name })).toBeFocused();
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByLabel('Type').selectOption('procedural');
  await expect(page.getByText('50 of 200 agents')).toBeVisible();
});
