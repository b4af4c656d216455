import { appendPage, insertRows, mergeFirstPage, type Page } from './pages';

/** The rows of a list with the cursor after them, for showing the list again as it was left. */
export interface LoadedRows<T> {
  rows: T[];
  next: string | null;
}

/** A list that is read in cursor pages, newest first. New rows are counted, and inserted on request only. */
export abstract class CursorList<T> {
  rows = $state.raw<T[]>([]);
  fresh = $state.raw<T[]>([]);
  /** Whether more rows are new than `fresh` holds. */
  freshIsMore = $state(false);
  /** Ids of rows that were deleted or no longer match the filters. They stay until `releaseRows`. */
  departed = $state.raw<ReadonlySet<string>>(new Set());
  /** Why the list could not be read. */
  error = $state.raw<unknown>(null);
  /** Why the page after the loaded rows could not be read. `loadMore` does nothing until `retryMore`. */
  moreError = $state.raw<unknown>(null);
  loading = $state(true);
  loadingMore = $state(false);
  atEnd = $state(false);

  /** Whether a reader points at the rows, so that none may move. */
  private isHeld = false;
  /** Changes whenever the list starts anew; answers to earlier requests are dropped. */
  protected generation = 0;
  private next: string | null = null;
  private freshNext: string | null = null;

  /** Reads the first page, or the page after a cursor. */
  protected abstract read(after?: string): Promise<Page<T>>;
  protected abstract idOf(row: T): string;
  protected abstract timeOf(row: T): number;

  /** Reads the list anew. The rows stay until the answer is there. */
  async reset(): Promise<void> {
    const generation = this.startAnew();
    this.loading = true;
    this.error = null;
    try {
      const page = await this.read();
      if (generation !== this.generation) return;
      this.show(page.rows, page.next);
    } catch (error) {
      if (generation === this.generation) this.error = error;
    }
    if (generation === this.generation) this.loading = false;
  }

  /** Reads the page after the loaded rows. After a failure only `retryMore` reads it again, so that a list cannot ask in a loop. */
  async loadMore(): Promise<void> {
    if (this.loadingMore || this.loading || this.atEnd || this.next === null || this.moreError !== null) return;
    const generation = this.generation;
    this.loadingMore = true;
    try {
      // A page of known rows only would not make the list ask for the next one.
      for (const { length } = this.rows; this.rows.length === length && this.next !== null; ) {
        const page = await this.read(this.next);
        if (generation !== this.generation) return;
        this.rows = appendPage(this.rows, page.rows, this.idOf);
        this.next = page.next;
      }
      this.atEnd = this.next === null;
    } catch (error) {
      if (generation === this.generation) this.moreError = error;
    } finally {
      if (generation === this.generation) this.loadingMore = false;
    }
  }

  /** Reads the page after the loaded rows again after a failure. */
  async retryMore(): Promise<void> {
    this.moreError = null;
    await this.loadMore();
  }

  /** Inserts the rows that the pill announces. After a gap the list starts again from the newest page. */
  showFresh(): void {
    if (this.freshIsMore) {
      this.startAnew();
      this.show(this.fresh, this.freshNext);
    } else this.rows = insertRows(this.rows, this.fresh, this.idOf, this.timeOf);
    this.clearFresh();
  }

  /** Returns what is loaded; null if there is nothing. */
  loaded(): LoadedRows<T> | null {
    return this.rows.length > 0 ? { rows: this.rows, next: this.next } : null;
  }

  /** Shows rows that were kept, or reads the list anew. The old rows do not belong to it. */
  protected async open(kept: LoadedRows<T> | null): Promise<void> {
    this.show(kept?.rows ?? [], kept?.next ?? null);
    if (kept === null) {
      this.atEnd = false;
      await this.reset();
    } else {
      this.startAnew();
      this.loading = false;
      this.error = null;
    }
  }

  /** Updates loaded rows from a newly read first page, and counts the new ones. An empty list shows them at once. */
  protected apply(page: Page<T>): void {
    const merged = mergeFirstPage(this.rows, { rows: page.rows, isLast: page.next === null, hasMore: this.next !== null, idOf: this.idOf, timeOf: this.timeOf });
    this.rows = merged.rows;
    const isBack = new Set(page.rows.map(this.idOf));
    this.depart([...[...this.departed].filter((id) => !isBack.has(id)), ...merged.departed]);
    if (this.rows.length === 0) {
      this.show(page.rows, page.next);
      return;
    }
    this.fresh = merged.fresh;
    this.freshIsMore = merged.gap;
    this.freshNext = page.next;
  }

  /** Marks rows as departed, and removes them unless a reader points at the rows. */
  protected depart(ids: string[]): void {
    this.departed = new Set(ids);
    if (!this.isHeld) this.removeDeparted();
  }

  /** Keeps departed rows in their place, because rows must not move under the pointer or the focus. */
  holdRows(): void {
    this.isHeld = true;
  }

  /** Removes departed rows now, and from now on as soon as they depart. */
  releaseRows(): void {
    this.isHeld = false;
    this.removeDeparted();
    if (this.rows.length === 0 && !this.atEnd && !this.loading) void this.reset();
  }

  private removeDeparted(): void {
    if (this.departed.size === 0) return;
    this.rows = this.rows.filter((row) => !this.departed.has(this.idOf(row)));
    this.departed = new Set();
  }

  /** Drops the answers to earlier requests, and returns the new generation. */
  private startAnew(): number {
    this.loadingMore = false;
    this.moreError = null;
    return ++this.generation;
  }

  private show(rows: T[], next: string | null): void {
    this.rows = rows;
    this.departed = new Set();
    this.next = next;
    this.atEnd = next === null;
    this.clearFresh();
  }

  private clearFresh(): void {
    this.fresh = [];
    this.freshIsMore = false;
  }
}
