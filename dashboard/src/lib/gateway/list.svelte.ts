import type { GatewayRequest } from '$lib/api/types';
import { client, unwrap } from '$lib/api/client';
import { CursorList, type LoadedRows } from '$lib/list/cursor.svelte';
import type { Page } from '$lib/list/pages';
import { Poll } from '$lib/live/poll.svelte';
import { requestApiQuery, type RequestFilters } from './filters';

const FIRST_PAGE_SIZE = 100;
const PAGE_SIZE = 500;
const POLL_EVERY_MS = 3_000;

/** The requests of the gateway. They have no events, so the list asks for new ones at an interval. */
export class RequestList extends CursorList<GatewayRequest> {
  private poll: Poll | null = null;

  constructor(private filters: RequestFilters) {
    super();
  }

  /** Shows the rows that were kept, if any, and asks for new ones. */
  start(kept: LoadedRows<GatewayRequest> | null = null): void {
    if (kept) void this.open(kept);
    this.poll = new Poll(() => this.refresh(), POLL_EVERY_MS);
  }

  stop(): void {
    this.poll?.close();
    this.generation += 1;
  }

  /** Reads the list again after a failure. */
  retry(): void {
    this.loading = true;
    this.error = null;
    this.poll?.now();
  }

  async setFilters(filters: RequestFilters, kept: LoadedRows<GatewayRequest> | null = null): Promise<void> {
    this.filters = filters;
    await this.open(kept);
    if (kept) this.poll?.now();
  }

  protected idOf(request: GatewayRequest): string {
    return request.request_id;
  }

  protected timeOf(request: GatewayRequest): number {
    // The server stores a request when its response has ended.
    return Date.parse(request.started_at) + request.duration_ms;
  }

  protected async read(after?: string): Promise<Page<GatewayRequest>> {
    const query = { ...requestApiQuery(this.filters), ...(after ? { after, limit: PAGE_SIZE } : { limit: FIRST_PAGE_SIZE }) };
    const page = await unwrap(client.GET('/gateway/requests', { params: { query } }));
    return { rows: page.requests, next: page.next ?? null };
  }

  private async refresh(): Promise<void> {
    const generation = this.generation;
    try {
      const page = await this.read();
      if (generation !== this.generation) return;
      this.apply(page);
      this.error = null;
    } catch (error) {
      if (generation === this.generation && this.rows.length === 0) this.error = error;
      throw error;
    } finally {
      if (generation === this.generation) this.loading = false;
    }
  }
}
