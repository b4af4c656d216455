import type { Agent, JournalEvent, Run, RunSummary, Session } from '$lib/api/types';
import { ApiError, client, unwrap } from '$lib/api/client';
import { memberText, parseJson } from '$lib/json/exact';
import { EventStream } from '$lib/live/stream.svelte';
import { isActive } from '$lib/runs/verdict';
import { JournalReader, type EventPage } from './reader.svelte';

const EVENT_PAGE = 500;
const REFRESH_EVERY_MS = 400;
/** Largest page of runs; the select of a session holds no more. */
const RUNS_MAX = 500;

/** A session with its runs, the selected run and, once requested, its journal. */
export class SessionModel {
  session = $state.raw<Session | null>(null);
  runs = $state.raw<RunSummary[]>([]);
  /** Whether the session has older runs that `runs` lacks. */
  hasMoreRuns = $state(false);
  run = $state.raw<Run | null>(null);
  /** Structured result of the run, as the server wrote it, which may be the text `null`; null without one. */
  resultJson = $state.raw<string | null>(null);
  /** The last event of the session while it is active, for a line that says what it does. */
  latest = $state.raw<JournalEvent | null>(null);
  /** Type of the session's agent; null until it is known. */
  agentType = $state<Agent['type'] | null>(null);
  error = $state.raw<unknown>(null);
  /** Number of refreshes after new events; parts that read from the server reload when it changes. */
  version = $state(0);
  readonly journal = new JournalReader((after) => this.readEvents(after, EVENT_PAGE));

  private wanted: string | null = null;
  private stream: EventStream | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private arrived: JournalEvent[] = [];
  private isStale = false;
  private closed = false;
  /** Count requests, so that an answer that a later one has overtaken is dropped. */
  private refreshes = 0;
  private runReads = 0;

  constructor(readonly id: string) {}

  stop(): void {
    this.closed = true;
    this.stream?.close();
    this.journal.close();
    clearTimeout(this.timer);
  }

  /** Selects a run by id; null selects the latest. */
  select(run: string | null): void {
    if (this.wanted === run) return;
    this.wanted = run;
    this.error = null;
    if (this.session) void this.showRun();
  }

  /** Reads the session, its runs and the selected run. The first success opens the stream. */
  async refresh(): Promise<void> {
    const refresh = ++this.refreshes;
    const isCurrent = () => refresh === this.refreshes && !this.closed;
    try {
      const [session, page] = await Promise.all([
        this.readSession(),
        unwrap(client.GET('/runs', { params: { query: { session_id: this.id, limit: RUNS_MAX } } })),
      ]);
      if (!isCurrent()) return;
      this.session = session;
      this.runs = page.runs;
      this.hasMoreRuns = Boolean(page.next);
      this.follow(session.last_seq);
      await Promise.all([this.readRun(), this.readAgentType(), this.readLatest(session)]);
      if (isCurrent()) this.error = null;
    } catch (error) {
      if (isCurrent()) this.error = error;
    }
  }

  private follow(lastSeq: number): void {
    this.stream ??= new EventStream({
      path: `/sessions/${this.id}/events/stream`,
      lastId: String(lastSeq),
      onMessage: ({ data }) => {
        this.arrived.push(parseJson(data) as JournalEvent);
        this.scheduleRefresh();
      },
      // A stream that resumes sends what was missed; it is no substitute for a read that failed meanwhile.
      onOpen: (resumed) => {
        if (!resumed || this.error !== null) this.scheduleRefresh();
      },
      onRefused: () => this.scheduleRefresh(),
    });
  }

  /** Reads the session. If it no longer exists, nothing of it stays on the page, and the stream ends. */
  private async readSession(): Promise<Session> {
    try {
      return await unwrap(client.GET('/sessions/{session_id}', { params: { path: { session_id: this.id } } }));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) {
        this.session = null;
        this.run = null;
        this.stream?.close();
        this.stream = null;
      }
      throw error;
    }
  }

  private async showRun(): Promise<void> {
    try {
      await this.readRun();
    } catch (error) {
      if (this.closed) return;
      this.run = null;
      this.error = error;
    }
  }

  private async readRun(): Promise<void> {
    const id = this.wanted ?? this.session?.last_run_id;
    if (!id) return;
    const read = ++this.runReads;
    const isCurrent = () => read === this.runReads && !this.closed;
    try {
      const text: string = await unwrap(client.GET('/runs/{run_id}', { params: { path: { run_id: id } }, parseAs: 'text' }));
      if (!isCurrent()) return;
      const run = parseJson(text) as Run;
      if (run.session_id !== this.id) throw new Error(`run \`${id}\` belongs to session \`${run.session_id}\`, not to \`${this.id}\`; open that session instead`);
      this.run = run;
      this.resultJson = memberText(text, 'result_data');
    } catch (error) {
      if (isCurrent()) throw error;
    }
  }

  /** Reads the blueprint of the session, which its first event holds. */
  private async readAgentType(): Promise<void> {
    if (this.agentType !== null) return;
    const [first] = (await this.readEvents(0, 1)).events;
    if (first?.event_type === 'run_start') this.agentType = (first.blueprint as Agent).type ?? 'autonomous';
  }

  /** Reads the last event of an active session; later ones come with the stream. */
  private async readLatest(session: Session): Promise<void> {
    if (this.latest !== null || !isActive(session.status) || session.last_seq === 0) return;
    const [last] = (await this.readEvents(session.last_seq - 1, 1)).events;
    this.latest ??= last ?? null;
  }

  private readEvents(after: number, limit: number): Promise<EventPage> {
    const params = { path: { session_id: this.id }, query: { after, limit } };
    return unwrap(client.GET('/sessions/{session_id}/events', { params }));
  }

  private scheduleRefresh(): void {
    this.isStale = true;
    if (!this.closed) this.timer ??= setTimeout(() => void this.update(), REFRESH_EVERY_MS);
  }

  private async update(): Promise<void> {
    this.isStale = false;
    const arrived = this.arrived;
    this.arrived = [];
    this.latest = arrived.at(-1) ?? this.latest;
    this.journal.add(arrived);
    await this.refresh();
    this.version += 1;
    this.timer = undefined;
    if (this.isStale) this.scheduleRefresh();
  }
}
