import { execFileSync } from 'node:child_process';
import { expect, startTestServer, test, type TestServer } from './support/fixtures';

const rows = '[role="row"][aria-rowindex]';
const quick = { agentFiles: { quick: { type: 'procedural', command: ['echo', '{}'], parameters_as: 'stdin' }, waiter: { type: 'procedural', command: ['sleep', '600'], parameters_as: 'stdin' } }, replyFiles: {} };

async function shownSessions(page: import('@playwright/test').Page): Promise<string[]> {
  return page.locator(`${rows} a`).evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''));
}

test('new runs are announced by a pill and appear on request', async ({ page }) => {
  const server = await startTestServer(quick);
  try {
    await server.start({ agent_name: 'quick', prompt: '1' });
    await page.goto(`${server.ui}/runs`);
    await expect(page.locator(rows)).toHaveCount(1);
    await expect(page.getByText('live', { exact: true })).toBeVisible();
    await server.start({ agent_name: 'quick', prompt: '2' });
    await server.start({ agent_name: 'quick', prompt: '3' });
    await page.getByRole('button', { name: '2 new' }).click();
    await expect(page.locator(rows)).toHaveCount(3);
  } finally {
    await page.close();
    await server.close();
  }
});

test('stop and delete change the session while it is shown', async ({ page }) => {
  const server = await startTestServer(quick);
  try {
    const run = await server.start({ agent_name: 'waiter', prompt: 'x' }, 0);
    await page.goto(`${server.ui}/sessions/${run.session_id}`);
    await expect(page.getByText('running', { exact: true }).first()).toBeVisible();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('button', { name: 'Stop the run' }).click();
    await expect(page.locator('header .title')).toContainText('stopped');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete the session' }).click();
    await expect(page.getByText('no runs yet')).toBeVisible();
  } finally {
    await page.close();
    await server.close();
  }
});

test.describe('while the server is down', () => {
  test.use({ allowed: [/Failed to load resource|ERR_/] });

  test('list recovers after SIGKILL without gap or duplicate', async ({ page }) => {
    const server = await startTestServer(quick);
    try {
      for (const prompt of ['1', '2', '3']) await server.start({ agent_name: 'quick', prompt });
      await page.goto(`${server.ui}/runs`);
      await expect(page.locator(rows)).toHaveCount(3);
      await server.start({ agent_name: 'quick', prompt: '4' });
      await expect(page.getByRole('button', { name: '1 new' })).toBeVisible();
      await server.kill('SIGKILL');
      await expect(page.getByText('reconnecting')).toBeVisible();
      await server.restart();
      for (const prompt of ['5', '6']) await server.start({ agent_name: 'quick', prompt });
      await expect(page.getByText('live', { exact: true })).toBeVisible();
      await page.getByRole('button', { name: '3 new' }).click();
      await expect(page.locator(rows)).toHaveCount(6);
      const shown = await shownSessions(page);
      expect(new Set(shown).size).toBe(6);
      const stored = (await (await fetch(`${server.api}/runs`)).json()) as { runs: { session_id: string }[] };
      expect(shown).toEqual(stored.runs.map((run) => `/ui/sessions/${run.session_id}`));
    } finally {
      await page.close();
      await server.close();
    }
  });
});

test.describe('with tokens', () => {
  test.use({ allowed: [/401/] });

  const slipform = (folder: string, ...words: string[]) => execFileSync(process.env.SLIPFORM_BIN ?? 'slipform', words, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

  async function withToken(name: string): Promise<{ server: TestServer; token: string }> {
    let token = '';
    const server = await startTestServer({ ...quick, settings: '[server]\nbehind_proxy = true\n' }, (folder) => {
      token = slipform(folder, 'token', 'create', name, '--scope', 'admin');
    });
    return { server, token };
  }

  test('token opens the screen that was asked for, and a revoked one leads back to the login', async ({ page }) => {
    const { server, token } = await withToken('ui');
    try {
      await page.goto(`${server.ui}/agents?new=1`);
      await expect(page.getByRole('heading', { name: 'Log in to Slipform' })).toBeVisible();
      await page.getByLabel('Token').fill('wrong');
      await page.getByRole('button', { name: 'Log in' }).click();
      await expect(page.getByText('the server refuses this token')).toBeVisible();
      await page.getByLabel('Token').fill(token);
      await page.keyboard.press('Enter');
      await expect(page).toHaveURL(/\/agents\?new=1$/);
      await expect(page.getByRole('heading', { name: 'Agents', exact: true })).toBeVisible();

      await page.goto(`${server.ui}/runs`);
      await expect(page.getByText('live', { exact: true })).toBeVisible();
      const id = slipform(server.folder, 'token', 'list').split('\n').find((line) => line.endsWith(' ui'))?.split(' ')[0] ?? '';
      slipform(server.folder, 'token', 'revoke', id);
      await expect(page).toHaveURL(/\/login\?back=%2Fruns$/);
    } finally {
      await page.close();
      await server.close();
    }
  });

  test('login link carries the token and removes it from the address', async ({ page }) => {
    const { server, token } = await withToken('link');
    try {
      await page.goto(`${server.ui}/runs#token=${token}`);
      await expect(page.getByText('no runs yet')).toBeVisible();
      expect(page.url()).not.toContain('token');
    } finally {
      await page.close();
      await server.close();
    }
  });
});

test('100,000 rows stay below 1,500 elements, and any page is reachable', async ({ page, demo }) => {
  const TOTAL = 100_000;
  const started = Date.UTC(2026, 0, 1);
  const row = (index: number) => ({
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
    created_at: new Date(started - index * 1_000).toISOString(),
    started_at: new Date(started - index * 1_000).toISOString(),
    finished_at: new Date(started - index * 1_000 + 900).toISOString(),
  });
  await page.route(/\/runs\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const first = Number(query.get('after') ?? 0);
    const last = Math.min(TOTAL, first + Number(query.get('limit') ?? 100) * 10);
    const runs = Array.from({ length: last - first }, (_, index) => row(first + index));
    return route.fulfill({ json: { runs, next: last < TOTAL ? String(last) : null } });
  });
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
