import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { StreamOptions } from '$lib/live/stream.svelte';
import { NO_FILTERS } from './filters';
import { RunList } from './list.svelte';

const PAGE = 100;
const server = vi.hoisted(() => ({ running: new Set<number>(), first: 0, isFailing: false, sessions: [] as string[], stream: null as StreamOptions | null }));

vi.mock('$lib/api/client', () => {
  const run = (id: number) => ({ run_id: `r${id}`, session_id: `s${id}`, agent_name: 'a', status: server.running.has(id) ? 'running' : 'completed', created_at: new Date(1e12 - id).toISOString() });
  const GET = async (_path: string, { params }: { params: { query: { session_id?: string; after?: string } } }) => {
    if (server.isFailing) throw new Error('unavailable');
    const { session_id, after } = params.query;
    if (session_id) server.sessions.push(session_id);
    if (session_id) return { runs: [run(Number(session_id.slice(1)))] };
    const first = Number(after ?? server.first);
    const last = Math.min(120, first + 100);
    return { runs: Array.from({ length: last - first }, (_, index) => run(first + index)), next: last < 120 ? String(last) : null };
  };
  return { client: { GET }, unwrap: (answer: Promise<unknown>) => answer };
});
vi.mock('$lib/live/stream.svelte', () => ({
  EventStream: class {
    constructor(options: StreamOptions) {
      server.stream = options;
    }
    close() {}
  },
}));

/** Returns a list whose first page and second page are loaded. Runs from 100 on are running. */
async function loaded(filters = NO_FILTERS): Promise<RunList> {
  server.running = new Set(Array.from({ length: 20 }, (_, index) => PAGE + index));
  const list = new RunList(filters);
  list.start();
  await vi.runAllTimersAsync();
  await list.loadMore();
  expect(list.rows.filter((row) => row.status === 'running').length).toBe(20);
  server.running.clear();
  return list;
}
const running = (list: RunList) => list.rows.filter((row) => row.status === 'running').length;
const change = (id: number) => server.stream?.onMessage({ id: `1-${id}`, event: 'run_completed', data: JSON.stringify({ run_id: `r${id}`, session_id: `s${id}` }) });

beforeEach(() => {
  vi.useFakeTimers();
  server.isFailing = false;
  server.first = 0;
  server.sessions = [];
});
afterEach(() => vi.useRealTimers());

describe('rows below the first page', () => {
  it('are all updated, however many change at once', async () => {
    const list = await loaded();
    for (let id = PAGE; id < 120; id += 1) change(id);
    await vi.runAllTimersAsync();
    expect([running(list), server.sessions.length]).toEqual([0, 20]);
  });

  it('are updated after a failed refresh', async () => {
    const list = await loaded();
    server.isFailing = true;
    change(PAGE);
    await vi.advanceTimersToNextTimerAsync();
    server.isFailing = false;
    await vi.runAllTimersAsync();
    expect(running(list)).toBe(19);
  });

  it('are updated by the page that a failed refresh missed, without a further event', async () => {
    const list = await loaded();
    server.isFailing = true;
    server.first = -1;
    change(-1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(list.fresh.length).toBe(0);
    server.isFailing = false;
    await vi.runAllTimersAsync();
    expect(list.fresh.map((row) => row.run_id)).toEqual(['r-1']);
  });

  it('leave the list once they no longer match its filters', async () => {
    const list = await loaded({ ...NO_FILTERS, agent: 'a', status: 'running' });
    change(PAGE);
    await vi.runAllTimersAsync();
    expect([list.rows.length, list.rows.some((row) => row.run_id === `r${PAGE}`)]).toEqual([119, false]);
  });

  it('are updated after a reconnection that does not resume', async () => {
    const list = await loaded();
    server.stream?.onOpen?.(false);
    await vi.runAllTimersAsync();
    expect(running(list)).toBe(0);
  });
});
