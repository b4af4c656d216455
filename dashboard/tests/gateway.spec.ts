import { chat } from '../scripts/demo.mjs';
import { expect, startTestServer, test } from './support/fixtures';
import { pressShortcut } from './support/keys';

const rows = '[role="row"][aria-rowindex]';
const project = { agentFiles: {}, replyFiles: { local: ['one', 'two', 'three'] } };
const question = { model: 'local', messages: [{ role: 'user', content: 'x' }] };

test('requests show their verdicts, and failed ones their message', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/gateway`);
  await expect(page.getByText('all 7 requests shown')).toBeVisible();
  const list = page.getByRole('table', { name: 'Requests' });
  const cells = async (index: number) => (await list.locator(`[aria-rowindex="${index}"] [role="cell"]`).allInnerTexts()).map((text) => text.trim());
  expect((await cells(2))[0]).toBe('gpt-4o');
  await expect(list.locator('[aria-rowindex="2"]')).toContainText(/backend (rejected|unavailable)/);
  await expect(list.locator('[aria-rowindex="2"]')).toContainText('silent.jsonl: holds no replies');
  await expect(list.locator('[aria-rowindex="3"]')).toContainText('streamed');
  await expect(list.locator('[aria-rowindex="4"]')).toContainText('schema validation failed');
  expect((await cells(5)).slice(0, 7)).toEqual(['gpt-4o-mini', '1 retry', 'chat (chat-8b)', expect.any(String), '2', '1', '0']);
  expect((await cells(6))[1]).toMatch(/^\d repairs$/);
  expect((await cells(7))[1]).toBe('first pass');
  expect((await cells(8))[1]).toBe('no schema');
});

test('empty list says which lines to change, and shows requests as they come', async ({ page }) => {
  const server = await startTestServer(project);
  try {
    await page.goto(`${server.ui}/gateway`);
    await expect(page.getByText('no requests yet')).toBeVisible();
    await expect(page.locator('pre mark')).toHaveText([`base_url="${new URL(server.ui).origin}/v1"`, /^model=".+"$/]);
    await expect(page.getByText('appears under')).toContainText('agent/NAME');
    await chat(server.api, question);
    await expect(page.locator(rows)).toHaveCount(1);
    await chat(server.api, question);
    await chat(server.api, question);
    await page.getByRole('button', { name: '2 new' }).click();
    await expect(page.locator(rows)).toHaveCount(3);
    await page.getByRole('button', { name: 'Connect a client' }).click();
    await expect(page.getByRole('dialog', { name: 'Connect a client' })).toContainText('base_url');
  } finally {
    await page.close();
    await server.close();
  }
});

test('filters stand in the address', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/gateway?status=failed`);
  await expect(page.getByText('all 2 requests shown')).toBeVisible();
  await page.getByLabel('Backend').selectOption('chat');
  await expect(page).toHaveURL(/backend=chat&status=failed/);
  await expect(page.getByText('1 request shown')).toBeVisible();
  await page.goBack();
  await expect(page.getByText('all 2 requests shown')).toBeVisible();
  await page.getByRole('button', { name: 'Clear' }).click();
  await expect(page.getByText('all 7 requests shown')).toBeVisible();
});

test('requests are reached, walked and opened by keyboard', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/stats`);
  await expect(page.getByText('By agent and backend')).toBeVisible();
  const heading = page.getByRole('heading', { name: 'Gateway', exact: true });
  await pressShortcut(page, 'gg', heading);
  await expect(heading).toBeFocused();
  await expect(page.getByText('all 7 requests shown')).toBeVisible();
  for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
  const second = page.locator('[aria-rowindex="3"]').getByRole('button');
  await expect(second).toBeFocused();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Request' });
  await expect(dialog).toContainText(/run_[0-9a-f]{12}/);
  await expect(dialog).toContainText('streamed');
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await expect(second).toBeFocused();
  await page.keyboard.press('/');
  await expect(page.getByLabel('Backend')).toBeFocused();
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toContainText('go to the gateway');
});

test('statistics name the gateway and lead to its requests', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/stats`);
  await expect(page.getByText('(gateway)')).toHaveCount(0);
  await page.getByRole('row', { name: 'Gateway chat (chat-8b)' }).getByRole('link', { name: 'Gateway' }).click();
  await expect(page).toHaveURL(/\/gateway\?backend=chat$/);
  await expect(page.getByText('all 6 requests shown')).toBeVisible();
  await page.goto(`${demo.ui}/stats`);
  await page.getByRole('combobox', { name: 'Agent' }).selectOption('Gateway');
  await expect(page).toHaveURL(/agent=%28gateway%29/);
  await expect(page.getByRole('row', { name: /^triage/ })).toHaveCount(0);
});

test('a name from a client stays text, however long, and tokens have a column', async ({ page, demo }) => {
  const request = (index: number) => ({
    request_id: `run_${index.toString(16).padStart(12, '0')}`,
    created_by: `tok_${index % 3}`,
    requested_model: index === 0 ? `<img src=x>\u202E${'x'.repeat(100_000)}` : `model-${index}`,
    backend: 'local',
    model: 'local-8b',
    status: 'completed',
    verdict: 'first_pass',
    strategy: 'native',
    has_contract: true,
    is_streamed: false,
    calls: 1,
    retry_count: 0,
    repairs: 0,
    tokens: { input: 10, output: 5 },
    duration_ms: 12,
    started_at: new Date().toISOString(),
    finished_at: new Date().toISOString(),
  });
  await page.route(/\/gateway\/requests/, (route) => route.fulfill({ json: { requests: Array.from({ length: 500 }, (_, index) => request(index)), next: null } }));
  await page.goto(`${demo.ui}/gateway`);
  await expect(page.getByText('<img src=x>⟦U+202E⟧').first()).toBeVisible();
  await expect(page.getByRole('columnheader', { name: 'Token', exact: true })).toBeVisible();
  expect(await page.locator('main img').count()).toBe(0);
  expect((await page.content()).length).toBeLessThan(200_000);
  expect(await page.locator('*').count()).toBeLessThan(1_500);
  await page.locator('.viewport').evaluate((element) => (element.scrollTop = element.scrollHeight));
  await expect(page.getByRole('button', { name: 'model-499,' })).toBeVisible();
});

test.describe('while the server fails', () => {
  test.use({ allowed: [/500/] });

  test('list shows the error and recovers', async ({ page, demo }) => {
    let isFailing = true;
    await page.route(/\/gateway\/requests/, (route) => (isFailing ? route.fulfill({ status: 500, json: { error: 'Internal', message: 'the store is unavailable' } }) : route.continue()));
    await page.goto(`${demo.ui}/gateway`);
    await expect(page.getByRole('alert')).toContainText('the store is unavailable');
    await expect(page.getByText('reconnecting')).toBeVisible();
    isFailing = false;
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect(page.getByText('all 7 requests shown')).toBeVisible();
    await expect(page.getByText('live', { exact: true })).toBeVisible();
  });
});
