import type { RunSummary } from '$lib/api/types';
import { client, unwrap } from '$lib/api/client';
import { CursorList, type LoadedRows } from '$lib/list/cursor.svelte';
import type { Page } from '$lib/list/pages';
import { EventStream } from '$lib/live/stream.svelte';
import { apiQuery, matches, type RunFilters } from './filters';
import { isActive } from './verdict';

const FIRST_PAGE_SIZE = 100;
/** Largest page of the server, so that a long list takes few requests to scroll through. */
const PAGE_SIZE = 500;
const REFRESH_EVERY_MS = 1_000;
/** Longest wait after failed refreshes. */
const RETRY_MAX_MS = 30_000;
/** Rows below the first page are read by session; more sessions than this wait for the next refresh. */
const SESSION_READS_MAX = 8;
const SESSION_PAGE_SIZE = 1_000;
const TYPES = 'run_start,attempt_started,validation_failed,escalated,run_completed,stop_requested';

/** The run list, kept current by the event stream. */
export class RunList extends CursorList<RunSummary> {
  private stream: EventStream | null = null;
  private isStopped = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Refreshes that have failed in a row. */
  private failures = 0;
  /** Ids of runs with new events. */
  private changed = new Set<string>();

  constructor(private filters: RunFilters) {
    super();
  }

  /** Shows the rows that were kept, or reads the list, and follows the events. */
  start(kept: LoadedRows<RunSummary> | null = null): void {
    void this.open(kept);
    this.stream = new EventStream({
      path: `/events/stream?types=${TYPES}&summary=true`,
      onMessage: ({ data }) => this.onEvent(data),
      onOpen: (resumed) => (resumed ? this.scheduleRefresh() : this.refreshAll()),
    });
  }

  stop(): void {
    this.isStopped = true;
    this.stream?.close();
    this.generation += 1;
    clearTimeout(this.timer);
  }

  async setFilters(filters: RunFilters, kept: LoadedRows<RunSummary> | null = null): Promise<void> {
    this.filters = filters;
    await this.open(kept);
    if (kept) this.refreshAll();
  }

  protected idOf(run: RunSummary): string {
    return run.run_id;
  }

  protected timeOf(run: RunSummary): number {
    return Date.parse(run.created_at);
  }

  /** Reads the first page again soon. Deletions have no events, so the screen asks for them. */
  refreshSoon(): void {
    this.scheduleRefresh();
  }

  protected async read(after?: string): Promise<Page<RunSummary>> {
    const query = { ...apiQuery(this.filters), ...(after ? { after, limit: PAGE_SIZE } : { limit: FIRST_PAGE_SIZE }) };
    const page = await unwrap(client.GET('/runs', { params: { query } }));
    return { rows: page.runs, next: page.next ?? null };
  }

  private onEvent(data: string): void {
    const event = JSON.parse(data) as { run_id: string };
    this.changed.add(event.run_id);
    this.scheduleRefresh();
  }

  /** Reads every run that was active again, because its events may have been missed. */
  private refreshAll(): void {
    for (const row of this.rows) if (isActive(row.status)) this.changed.add(row.run_id);
    this.scheduleRefresh();
  }

  private scheduleRefresh(): void {
    this.timer ??= setTimeout(() => void this.refresh(), Math.min(RETRY_MAX_MS, REFRESH_EVERY_MS * 2 ** this.failures));
  }

  /** Reads the first page, updates loaded rows in place and counts the new ones. */
  private async refresh(): Promise<void> {
    const generation = this.generation;
    const changed = this.changed;
    this.changed = new Set();
    try {
      const page = await this.read();
      if (generation === this.generation) {
        this.apply(page);
        for (const run of page.rows) changed.delete(run.run_id);
        await this.refreshOlder(changed, generation);
        this.error = null;
      }
      this.failures = 0;
    } catch (error) {
      if (generation === this.generation && this.rows.length === 0) this.error = error;
      this.failures += 1;
    }
    this.timer = undefined;
    if (this.isStopped) return;
    for (const row of this.rows) if (changed.has(row.run_id) && isActive(row.status)) this.changed.add(row.run_id);
    // A new run has no loaded row, so a failed refresh is repeated in any case.
    if (this.changed.size > 0 || this.failures > 0) this.scheduleRefresh();
  }

  /** Reads changed rows below the first page, and removes from `changed` what it has read. */
  private async refreshOlder(changed: Set<string>, generation: number): Promise<void> {
    const sessions = new Set(this.rows.filter((row) => changed.has(row.run_id) && isActive(row.status)).map((row) => row.session_id));
    for (const session_id of [...sessions].slice(0, SESSION_READS_MAX)) {
      const page = await unwrap(client.GET('/runs', { params: { query: { session_id, limit: SESSION_PAGE_SIZE } } }));
      if (generation !== this.generation) return;
      const updates = new Map(page.runs.map((run) => [run.run_id, run]));
      this.rows = this.rows.map((known) => updates.get(known.run_id) ?? known);
      const hasLeft = (run: RunSummary) => run.session_id === session_id && (!matches(run, this.filters) || (!updates.has(run.run_id) && (page.next ?? null) === null));
      this.depart([...this.departed, ...this.rows.filter(hasLeft).map((run) => run.run_id)]);
      for (const row of this.rows) if (row.session_id === session_id) changed.delete(row.run_id);
    }
  }
}
