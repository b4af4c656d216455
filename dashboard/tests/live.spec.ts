import { execFileSync } from 'node:child_process';
import { expect, startTestServer, startTestServerWith, test, type TestServer } from './support/fixtures';

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
    await expect(page.locator(`${rows} a`).first()).toBeFocused();
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

test('rows that left the filter leave the list, once the pointer is elsewhere', async ({ page }) => {
  const server = await startTestServer(quick);
  try {
    const first = await server.start({ agent_name: 'waiter', prompt: '1' }, 0);
    const second = await server.start({ agent_name: 'waiter', prompt: '2' }, 0);
    await page.goto(`${server.ui}/runs?status=running`);
    await expect(page.locator(rows)).toHaveCount(2);
    await page.locator(`${rows} a[href*="${second.run_id}"]`).hover();
    for (const { run_id } of [first, second]) await fetch(`${server.api}/runs/${run_id}/stop`, { method: 'POST' });
    await expect(page.getByText('no longer listed')).toHaveCount(2);
    await page.getByRole('heading', { name: 'Runs' }).hover();
    await expect(page.getByText('no run matches these filters')).toBeVisible();
  } finally {
    await page.close();
    await server.close();
  }
});

test.describe('when a session is deleted elsewhere', () => {
  test.use({ allowed: [/404/] });

  test('its page says so and stops asking', async ({ page }) => {
    const server = await startTestServer(quick);
    try {
      const run = await server.start({ agent_name: 'quick', prompt: '1' });
      await page.goto(`${server.ui}/sessions/${run.session_id}`);
      await expect(page.getByText('live', { exact: true })).toBeVisible();
      expect((await fetch(`${server.api}/sessions/${run.session_id}`, { method: 'DELETE' })).status).toBe(204);
      await expect(page.getByRole('alert')).toContainText(run.session_id);
      await expect(page.getByRole('button', { name: 'Run again' })).toHaveCount(0);
      await expect(page.getByText('reconnecting')).toHaveCount(0);
      await expect(page.getByText('live', { exact: true })).toHaveCount(0);
    } finally {
      await page.close();
      await server.close();
    }
  });
});

test('new events reload the calls once', async ({ page, demo }) => {
  const { session_id, run_id } = demo.runs.retried ?? { session_id: '', run_id: '' };
  const event = { seq: 1_000, session_id, run_id, timestamp: new Date().toISOString(), event_type: 'lease_expired', attempt: 1 };
  let streams = 0;
  let calls = 0;
  // The first stream sends one event and ends; the second one stays open.
  await page.route(`**/sessions/${session_id}/events/stream`, (route) => {
    streams += 1;
    if (streams === 1) return route.fulfill({ contentType: 'text/event-stream', body: `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n` });
  });
  page.on('request', (request) => (calls += Number(request.url().endsWith(`/runs/${run_id}/calls`))));
  await page.goto(demo.session('retried', 'attempts'));
  await expect.poll(() => streams).toBe(2);
  await expect.poll(() => calls).toBeGreaterThan(1);
  // A second reload would start in the same frame.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  expect(calls).toBe(2);
});

test.describe('while the server is down', () => {
  test.use({ allowed: [/Failed to load resource|ERR_/] });

  test('list recovers after SIGKILL without gap or duplicate', async ({ page }) => {
    const server = await startTestServerWith({ project: quick, restarts: true });
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
      const stored = (await (await fetch(`${server.api}/runs`)).json()) as { runs: { session_id: string; run_id: string }[] };
      expect(shown).toEqual(stored.runs.map((run) => `/ui/sessions/${run.session_id}?run=${run.run_id}`));
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
