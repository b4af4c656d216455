import { expect, test } from './support/fixtures';

test.use({ allowed: [/500/] });
const unavailable = { status: 500, json: { error: 'Internal', message: 'the store is unavailable' } };

test('journal says that a later page could not be read, and reads it on request', async ({ page, demo }) => {
  let isFailing = true;
  await page.route(`**/sessions/${demo.runs.retried?.session_id}/events?*`, async (route) => {
    const after = Number(new URL(route.request().url()).searchParams.get('after'));
    if (after > 0) return isFailing ? route.fulfill(unavailable) : route.fallback();
    const response = await route.fetch();
    const { events } = (await response.json()) as { events: { seq: number }[] };
    await route.fulfill({ response, json: { events: events.slice(0, 2), next: events[1]?.seq } });
  });
  await page.goto(demo.session('retried', 'journal'));
  await expect(page.getByRole('alert')).toContainText('later events could not be loaded: the store is unavailable');
  await expect(page.locator('ol > li')).toHaveCount(2);
  isFailing = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(page.getByText('the run completed')).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
});

test('attempts say that a later read has failed', async ({ page, demo }) => {
  const { session_id, run_id } = demo.runs.retried ?? { session_id: '', run_id: '' };
  const event = { seq: 1_000, session_id, run_id, timestamp: new Date().toISOString(), event_type: 'lease_expired', attempt: 1 };
  let reads = 0;
  await page.route(`**/runs/${run_id}/calls`, (route) => ((reads += 1) === 1 ? route.fallback() : route.fulfill(unavailable)));
  let streams = 0;
  await page.route(`**/sessions/${session_id}/events/stream`, (route) => {
    if ((streams += 1) === 1) return route.fulfill({ contentType: 'text/event-stream', body: `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n` });
  });
  await page.goto(demo.session('retried', 'attempts'));
  await expect(page.getByRole('alert')).toContainText('these calls may not be all: the store is unavailable');
  await expect(page.getByRole('article', { name: 'Call 2' })).toBeVisible();
});

test('tree of an ended run shows children on all pages, and how long they have been running', async ({ page, demo }) => {
  const root = demo.runs.first?.run_id ?? '';
  const child = (id: string, status: string, ago: number) => ({ run_id: id, session_id: `ses_${id}`, agent_name: id, type: 'start_session', status, retry_count: 0, attempts: 1, parent_run_id: root, created_at: new Date(Date.now() - ago).toISOString(), started_at: new Date(Date.now() - ago).toISOString(), finished_at: status === 'running' ? null : new Date(Date.now() - ago + 1_000).toISOString() });
  await page.route((url) => url.searchParams.has('parent_run_id'), (route) => {
    const query = new URL(route.request().url()).searchParams;
    if (query.get('parent_run_id') !== root) return route.fulfill({ json: { runs: [], next: null } });
    return route.fulfill({ json: query.has('after') ? { runs: [child('second-page', 'completed', 60_000)], next: null } : { runs: [child('still-running', 'running', 600_000)], next: 'x' } });
  });
  await page.goto(demo.session('first', 'tree'));
  const table = page.getByRole('table', { name: 'Runs of the session and its children' });
  await expect(table.getByRole('row').filter({ hasText: 'still-running' })).toContainText('10 min');
  await expect(table.getByRole('row').filter({ hasText: 'second-page' })).toBeVisible();
});
