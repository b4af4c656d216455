import type { JournalEvent, Run, RunSummary } from '$lib/api/additions';
import { client, unwrap, type Schemas } from '$lib/api/client';
import { EventStream } from '$lib/live/stream.svelte';

const EVENT_PAGE = 500;
const REFRESH_EVERY_MS = 400;

/** A session with its runs, the selected run and, once requested, its journal. */
export class SessionModel {
  session = $state.raw<Schemas['SessionView'] | null>(null);
  runs = $state.raw<RunSummary[]>([]);
  run = $state.raw<Run | null>(null);
  events = $state.raw<JournalEvent[]>([]);
  error = $state.raw<unknown>(null);
  eventsError = $state.raw<unknown>(null);
  /** Number of events that arrived; parts that read from the server reload when it changes. */
  version = $state(0);

  private wanted: string | null = null;
  private stream: EventStream | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private journalWanted = false;
  private journalBusy = false;
  private closed = false;

  constructor(readonly id: string) {}

  async start(): Promise<void> {
    await this.refresh();
    if (this.closed || !this.session) return;
    this.stream = new EventStream({
      path: () => `/sessions/${this.id}/events/stream`,
      lastId: String(this.session.last_seq),
      onMessage: () => this.scheduleRefresh(),
      onOpen: () => this.scheduleRefresh(),
    });
  }

  stop(): void {
    this.closed = true;
    this.stream?.close();
    clearTimeout(this.timer);
  }

  /** Selects a run by id; null selects the latest. */
  select(run: string | null): void {
    if (this.wanted === run) return;
    this.wanted = run;
    this.run = null;
    if (this.session) void this.readRun();
  }

  async refresh(): Promise<void> {
    try {
      const path = { session_id: this.id };
      const [session, page] = await Promise.all([
        unwrap(client.GET('/sessions/{session_id}', { params: { path } })),
        unwrap(client.GET('/runs', { params: { query: { session_id: this.id, limit: 1000 } } })),
      ]);
      this.session = session;
      this.runs = page.runs as RunSummary[];
      await this.readRun();
      this.error = null;
    } catch (error) {
      if (!this.closed) this.error = error;
    }
  }

  /** Reads the journal up to its current end, and keeps it current from then on. */
  async readJournal(): Promise<void> {
    this.journalWanted = true;
    if (this.journalBusy) return;
    this.journalBusy = true;
    try {
      for (let more = true; more && !this.closed; ) {
        const after = this.events.at(-1)?.seq ?? 0;
        const params = { path: { session_id: this.id }, query: { after, limit: EVENT_PAGE } };
        const page = await unwrap(client.GET('/sessions/{session_id}/events', { params }));
        this.events = appendEvents(this.events, page.events as JournalEvent[]);
        more = page.next !== null && page.next !== undefined && page.events.length > 0;
      }
      this.eventsError = null;
    } catch (error) {
      this.eventsError = error;
    }
    this.journalBusy = false;
  }

  private async readRun(): Promise<void> {
    const id = this.wanted ?? this.session?.last_run_id;
    if (!id) return;
    const run = (await unwrap(client.GET('/runs/{run_id}', { params: { path: { run_id: id } } }))) as Run;
    if (id === (this.wanted ?? this.session?.last_run_id)) this.run = run;
  }

  private scheduleRefresh(): void {
    this.timer ??= setTimeout(async () => {
      this.timer = undefined;
      await this.refresh();
      if (this.journalWanted) await this.readJournal();
      this.version += 1;
    }, REFRESH_EVERY_MS);
  }
}

/** Appends events in order of `seq`, without those that are already known. */
export function appendEvents(known: JournalEvent[], more: JournalEvent[]): JournalEvent[] {
  const last = known.at(-1)?.seq ?? 0;
  const added = more.filter((event) => event.seq > last);
  return added.length === 0 ? known : [...known, ...added];
}
