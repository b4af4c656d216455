import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApiError } from '$lib/api/client';
import type { JournalEvent } from '$lib/api/types';
import type { StreamOptions } from '$lib/live/stream.svelte';
import { SessionModel } from './model.svelte';
import { JournalReader, type EventPage } from './reader.svelte';

type Answer = (query: Record<string, unknown>) => unknown;
const server = vi.hoisted(() => ({ answers: {} as Record<string, Answer>, requests: [] as string[], streams: [] as { options: StreamOptions; isClosed: boolean }[] }));

vi.mock('$lib/api/client', () => {
  class ApiError extends Error {
    constructor(readonly status: number) {
      super(`the server answered ${status}`);
    }
  }
  const GET = async (path: string, { params, parseAs }: { params: { path?: Record<string, string>; query?: Record<string, unknown> }; parseAs?: string }) => {
    const address = path.replace(/\{(\w+)\}/g, (_, name: string) => params.path?.[name] ?? '');
    server.requests.push(address);
    const answer = await server.answers[address]?.(params.query ?? {});
    return parseAs === 'text' && typeof answer !== 'string' ? JSON.stringify(answer) : answer;
  };
  const unwrap = (answer: Promise<unknown>) => answer;
  return { ApiError, client: { GET }, unwrap };
});
vi.mock('$lib/live/stream.svelte', () => ({
  EventStream: class {
    isClosed = false;
    constructor(readonly options: StreamOptions) {
      server.streams.push(this);
    }
    close() {
      this.isClosed = true;
    }
  },
}));

const refuse = (status: number) => () => Promise.reject(new (ApiError as unknown as new (status: number) => Error)(status));
const event = (seq: number) => ({ seq, event_type: seq === 1 ? 'run_start' : 'message', blueprint: {}, session_id: 'A', run_id: 'a1', timestamp: '2026-11-18T12:00:00Z' }) as unknown as JournalEvent;
const events = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => event(from + index));
const seqs = (list: readonly JournalEvent[]) => list.map(({ seq }) => seq);
const send = (data: JournalEvent) => server.streams[0]?.options.onMessage({ id: String(data.seq), event: 'x', data: JSON.stringify(data) });

beforeEach(() => {
  vi.useFakeTimers();
  server.requests = [];
  server.streams = [];
  server.answers = {
    '/sessions/A': () => ({ session_id: 'A', last_run_id: 'a1', last_seq: 3, status: 'completed' }),
    '/runs': () => ({ runs: [{ run_id: 'a1' }] }),
    '/runs/a1': () => ({ run_id: 'a1', session_id: 'A', status: 'completed' }),
    '/runs/b1': () => ({ run_id: 'b1', session_id: 'B', status: 'completed' }),
    '/sessions/A/events': ({ after, limit }) => ({ events: events(Number(after) + 1, Math.min(3, Number(after) + Number(limit))), next: null }),
  };
});
afterEach(() => vi.useRealTimers());

describe('session model', () => {
  it('opens the stream once the session could be read', async () => {
    const model = new SessionModel('A');
    const answer = server.answers['/sessions/A'] as Answer;
    server.answers['/sessions/A'] = refuse(503);
    await model.refresh();
    expect([model.error !== null, server.streams.length]).toEqual([true, 0]);
    server.answers['/sessions/A'] = answer;
    await model.refresh();
    await model.refresh();
    expect([model.error, server.streams.length, server.streams[0]?.options.lastId]).toEqual([null, 1, '3']);
  });

  it('refuses the run of another session', async () => {
    const model = new SessionModel('A');
    model.select('b1');
    await model.refresh();
    expect(model.run).toBeNull();
    expect(String(model.error)).toContain('run `b1` belongs to session `B`');
  });

  it('shows why a selected run cannot be read', async () => {
    const model = new SessionModel('A');
    await model.refresh();
    server.answers['/runs/a2'] = refuse(500);
    model.select('a2');
    await vi.waitFor(() => expect(model.error).not.toBeNull());
    model.select(null);
    await vi.waitFor(() => expect(model.run?.run_id).toBe('a1'));
    expect(model.error).toBeNull();
  });

  it('forgets a session that was deleted elsewhere, and ends its stream', async () => {
    const model = new SessionModel('A');
    await model.refresh();
    server.answers['/sessions/A'] = refuse(404);
    server.streams[0]?.options.onRefused?.();
    await vi.runAllTimersAsync();
    expect([model.session, model.run, model.error !== null, server.streams[0]?.isClosed]).toEqual([null, null, true, true]);
  });

  it('keeps the newer of two answers', async () => {
    const model = new SessionModel('A');
    let answerLate = (_: unknown): void => {};
    server.answers['/runs/a1'] = () => new Promise((resolve) => (answerLate = resolve));
    const first = model.refresh();
    await vi.waitFor(() => expect(server.requests).toContain('/runs/a1'));
    server.answers['/runs/a1'] = () => ({ run_id: 'a1', session_id: 'A', status: 'completed' });
    await model.refresh();
    answerLate({ run_id: 'a1', session_id: 'A', status: 'running' });
    await first;
    expect(model.run?.status).toBe('completed');
  });

  it('takes new events from the stream, without reading the journal', async () => {
    const model = new SessionModel('A');
    await model.refresh();
    send(event(4));
    await vi.runAllTimersAsync();
    expect([model.latest?.seq, model.version, model.journal.events.length]).toEqual([4, 1, 0]);
    await model.journal.read();
    const reads = server.requests.filter((path) => path === '/sessions/A/events').length;
    send(event(4));
    send(event(5));
    await vi.runAllTimersAsync();
    expect(seqs(model.journal.events)).toEqual([1, 2, 3, 4, 5]);
    expect(server.requests.filter((path) => path === '/sessions/A/events').length).toBe(reads);
  });

  it('keeps the text of the result as the server wrote it', async () => {
    server.answers['/runs/a1'] = () => '{"run_id":"a1","session_id":"A","result_data":{"id": 9007199254740993 }}';
    const model = new SessionModel('A');
    await model.refresh();
    expect([model.resultJson, String((model.run?.result_data as { id: unknown }).id)]).toEqual(['{"id": 9007199254740993 }', '9007199254740993']);
  });
});

describe('journal reader', () => {
  it('reads once more if it was asked during a read', async () => {
    let end = 2;
    let answer = (_: EventPage): void => {};
    const reads: number[] = [];
    const reader = new JournalReader((after) => {
      reads.push(after);
      return reads.length === 1 ? new Promise((resolve) => (answer = resolve)) : Promise.resolve({ events: events(after + 1, end), next: null });
    });
    const first = reader.read();
    end = 3;
    const second = reader.read();
    answer({ events: events(1, 2), next: null });
    await Promise.all([first, second]);
    expect([seqs(reader.events), reads]).toEqual([[1, 2, 3], [0, 2]]);
  });

  it('reads the events that are missing before those of the stream', async () => {
    const reader = new JournalReader((after) => Promise.resolve({ events: events(after + 1, 5), next: null }));
    reader.add(events(1, 2));
    expect(reader.events.length).toBe(0);
    await reader.read();
    reader.add(events(5, 6));
    expect(seqs(reader.events)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('reads again after a failure', async () => {
    let isFailing = true;
    const reader = new JournalReader(() => (isFailing ? Promise.reject(new Error('unavailable')) : Promise.resolve({ events: events(1, 1), next: null })));
    await reader.read();
    expect(reader.error).not.toBeNull();
    isFailing = false;
    await reader.read();
    expect([reader.error, reader.events.length]).toEqual([null, 1]);
  });
});
