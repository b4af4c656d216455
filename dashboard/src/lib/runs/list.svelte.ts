import type { RunSummary } from '$lib/api/additions';
import { client, isUnknownParameter, unwrap } from '$lib/api/client';
import { EventStream } from '$lib/live/stream.svelte';
import { apiQuery, type RunFilters } from './filters';
import { appendPage, mergeFirstPage, prependRows } from './pages';
import { isActive } from './verdict';

const PAGE_SIZE = 100;
const REFRESH_EVERY_MS = 1_000;
/** Rows below the first page are read one by one; more changes than this wait for the next refresh. */
const SINGLE_READS_MAX = 8;
const TYPES = 'run_start,attempt_started,validation_failed,escalated,run_completed,stop_requested';

/** The run list: rows loaded in cursor pages, kept current by the event stream. */
export class RunList {
  rows = $state.raw<RunSummary[]>([]);
  fresh = $state.raw<RunSummary[]>([]);
  freshIsMore = $state(false);
  error = $state.raw<unknown>(null);
  loading = $state(true);
  loadingMore = $state(false);
  atEnd = $state(false);
  unsupported = $state('');

  private next: string | null = null;
  private hasGap = false;
  private freshNext: string | null = null;
  private stream: EventStream | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private changed = new Map<string, string>();
  private summaries = true;
  private generation = 0;

  constructor(private filters: RunFilters) {}

  start(): void {
    void this.reset();
    this.stream = new EventStream({
      path: () => (this.summaries ? `/events/stream?types=${TYPES}&summary=true` : '/events/stream'),
      onMessage: ({ data }) => this.onEvent(data),
      onOpen: () => this.scheduleRefresh(),
      onRefused: (error) => {
        const retry = this.summaries && isUnknownParameter(error);
        if (retry) this.summaries = false;
        return retry;
      },
    });
  }

  stop(): void {
    this.stream?.close();
    this.generation += 1;
    clearTimeout(this.timer);
  }

  async setFilters(filters: RunFilters): Promise<void> {
    this.filters = filters;
    await this.reset();
  }

  async reset(): Promise<void> {
    const generation = ++this.generation;
    this.loading = true;
    this.error = null;
    try {
      const page = await this.read();
      if (generation !== this.generation) return;
      this.show(page.runs, page.next ?? null);
    } catch (error) {
      if (generation === this.generation) this.fail(error);
    }
    if (generation === this.generation) this.loading = false;
  }

  async loadMore(): Promise<void> {
    if (this.loadingMore || this.loading || this.atEnd || this.next === null) return;
    const generation = this.generation;
    this.loadingMore = true;
    try {
      const page = await this.read(this.next);
      if (generation !== this.generation) return;
      this.rows = appendPage(this.rows, page.runs);
      this.next = page.next ?? null;
      this.atEnd = this.next === null;
    } catch (error) {
      if (generation === this.generation) this.error = error;
    } finally {
      this.loadingMore = false;
    }
  }

  /** Inserts the rows that the pill announces. After a gap the list starts again from the newest page. */
  showFresh(): void {
    if (this.hasGap) this.show(this.fresh, this.freshNext);
    else this.rows = prependRows(this.rows, this.fresh);
    this.clearFresh();
  }

  private show(rows: RunSummary[], next: string | null): void {
    this.rows = rows;
    this.next = next;
    this.atEnd = next === null;
    this.clearFresh();
  }

  private clearFresh(): void {
    this.fresh = [];
    this.freshIsMore = false;
    this.hasGap = false;
  }

  private fail(error: unknown): void {
    if (isUnknownParameter(error)) {
      this.unsupported = error instanceof Error ? error.message : '';
      this.show([], null);
    } else {
      this.error = error;
    }
  }

  private async read(after?: string): Promise<{ runs: RunSummary[]; next?: string | null }> {
    const query = { ...apiQuery(this.filters), limit: PAGE_SIZE, ...(after ? { after } : {}) };
    const page = await unwrap(client.GET('/runs', { params: { query: query as { limit: number } } }));
    this.unsupported = '';
    return page as { runs: RunSummary[]; next?: string | null };
  }

  private onEvent(data: string): void {
    const event = JSON.parse(data) as { run_id: string; session_id: string };
    this.changed.set(event.run_id, event.session_id);
    this.scheduleRefresh();
  }

  private scheduleRefresh(): void {
    this.timer ??= setTimeout(() => void this.refresh(), REFRESH_EVERY_MS);
  }

  /** Reads the first page, updates loaded rows in place and counts the new ones. */
  private async refresh(): Promise<void> {
    const generation = this.generation;
    const changed = this.changed;
    this.changed = new Map();
    try {
      const page = await this.read();
      if (generation === this.generation) {
        this.apply(page.runs, page.next ?? null);
        await this.refreshOlder(changed, new Set(page.runs.map((run) => run.run_id)));
        this.error = null;
      }
    } catch (error) {
      if (generation === this.generation && this.rows.length === 0) this.fail(error);
    }
    this.timer = undefined;
    if (this.changed.size > 0 && generation === this.generation) this.scheduleRefresh();
  }

  private apply(page: RunSummary[], next: string | null): void {
    const merged = mergeFirstPage(this.rows, page, next === null);
    this.rows = merged.rows;
    if (this.rows.length === 0) {
      this.show(page, next);
      return;
    }
    this.fresh = merged.fresh;
    this.hasGap = merged.gap;
    this.freshIsMore = merged.gap;
    this.freshNext = next;
  }

  private async refreshOlder(changed: Map<string, string>, seen: Set<string>): Promise<void> {
    const older = this.rows.filter((row) => changed.has(row.run_id) && !seen.has(row.run_id) && isActive(row.status));
    for (const row of older.slice(0, SINGLE_READS_MAX)) {
      const page = await unwrap(client.GET('/runs', { params: { query: { session_id: row.session_id } } }));
      const updates = new Map((page.runs as RunSummary[]).map((run) => [run.run_id, run]));
      this.rows = this.rows.map((known) => updates.get(known.run_id) ?? known);
    }
  }
}
