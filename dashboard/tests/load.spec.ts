import type { ServerResponse } from 'node:http';
import { serve } from '../scripts/serve.mjs';
import { expect, test } from './support/fixtures';

const SECONDS = 60;
const EVENTS_PER_SECOND = 1_000;
const BATCH_MS = 50;
const GROWTH_MAX = 4 * 1024 * 1024;

/** Sends events of runs that the list does not contain: as many as the time since the start demands, however late the timer is. */
function flood(response: ServerResponse): () => number {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const start = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    let batch = '';
    for (const due = ((performance.now() - start) / 1_000) * EVENTS_PER_SECOND; sent < due; ) {
      sent += 1;
      const id = sent.toString(16).padStart(12, '0');
      const data = { seq: 1, session_id: `ses_${id}`, run_id: `run_${id}`, timestamp: new Date().toISOString(), event_type: 'run_start', agent_name: 'load' };
      batch += `id: 1-${sent}\nevent: run_start\ndata: ${JSON.stringify(data)}\n\n`;
    }
    response.write(batch);
  }, BATCH_MS);
  response.on('close', () => clearInterval(timer));
  return () => sent;
}

test('heap stays steady under 1,000 events a second', async ({ page, demo }) => {
  test.setTimeout(SECONDS * 5_000);
  let sent = (): number => 0;
  const proxy = await serve(0, demo.api, (path: string, response: ServerResponse) => {
    if (path === '/events/stream') sent = flood(response);
    return path === '/events/stream';
  });
  const session = await page.context().newCDPSession(page);
  const heap = async (): Promise<number> => {
    await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Runtime.getHeapUsage')).usedSize;
  };
  try {
    await page.goto(`${proxy.url}/ui/runs`);
    await expect(page.getByText('live', { exact: true })).toBeVisible();
    const total = SECONDS * EVENTS_PER_SECOND;
    await expect.poll(() => sent(), { timeout: SECONDS * 2_000 }).toBeGreaterThan(total / 4);
    const before = await heap();
    await expect.poll(() => sent(), { timeout: SECONDS * 2_000 }).toBeGreaterThan(total);
    const after = await heap();
    expect(after - before, `${before} bytes before, ${after} after`).toBeLessThan(GROWTH_MAX);
    expect(await page.locator('*').count()).toBeLessThan(1_500);
  } finally {
    await page.close();
    proxy.server.closeAllConnections();
    proxy.server.close();
  }
});
