import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { StreamOptions } from '$lib/live/stream.svelte';
import { NO_FILTERS } from './filters';
import { RunList } from './list.svelte';

const PAGE = 100;
const server = vi.hoisted(() => ({ running: new Set<number>(), total: 120, isFailing: false, sessions: [] as string[], stream: null as StreamOptions | null }));

vi.mock('$lib/api/client', () => {
  const run = (id: number) => ({ run_id: `r${id}`, session_id: `s${id}`, status: server.running.has(id) ? 'running' : 'completed' });
  const GET = async (_path: string, { params }: { params: { query: { session_id?: string; after?: string } } }) => {
    if (server.isFailing) throw new Error('unavailable');
    const { session_id, after } = params.query;
    if (session_id) server.sessions.push(session_id);
    if (session_id) return { runs: [run(Number(session_id.slice(1)))] };
    const first = Number(after ?? 0);
    const last = Math.min(server.total, first + 100);
    return { runs: Array.from({ length: last - first }, (_, index) => run(first + index)), next: last < server.total ? String(last) : null };
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
async function loaded(): Promise<RunList> {
  server.running = new Set(Array.from({ length: 20 }, (_, index) => PAGE + index));
  const list = new RunList(NO_FILTERS);
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
  server.sessions = [];
});
afterEach(() => vi.useRealTimers());

describe('rows below the first page', () => {
  it('are all updated, however many change at once', async () => {
    const list = await loaded();
    for (let id = PAGE; id < server.total; id += 1) change(id);
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

  it('are updated after a reconnection that does not resume', async () => {
    const list = await loaded();
    server.stream?.onOpen?.(false);
    await vi.runAllTimersAsync();
    expect(running(list)).toBe(0);
  });
});
