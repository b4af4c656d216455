import { describe, expect, it } from 'vitest';
import { CursorList, type LoadedRows } from './cursor.svelte';
import { appendPage, insertRows, mergeFirstPage, visibleRange, type Page } from './pages';

interface Row {
  id: number;
  status?: string;
}
const row = (id: number, status = 'completed'): Row => ({ id, status });
const idOf = ({ id }: Row) => String(id);
const timeOf = ({ id }: Row) => id;
const ids = (rows: Row[]) => rows.map(({ id }) => id);
const merge = (loaded: Row[], rows: Row[], isLast: boolean, hasMore = !isLast) => mergeFirstPage(loaded, { rows, isLast, hasMore, idOf, timeOf });

describe('pages', () => {
  it('count new rows without inserting them', () => {
    const merged = merge([row(3), row(2), row(1)], [row(5), row(4), row(3, 'failed')], false);
    expect(ids(merged.rows)).toEqual([3, 2, 1]);
    expect(merged.rows[0]?.status).toBe('failed');
    expect(ids(merged.fresh)).toEqual([5, 4]);
    expect(merged.gap).toBe(false);
  });

  it('report a gap when the first page does not reach the loaded rows', () => {
    expect(merge([row(1)], [row(9), row(8)], false).gap).toBe(true);
    expect(merge([row(1)], [row(9), row(8)], true).gap).toBe(false);
    expect(merge([], [row(9)], false).gap).toBe(false);
  });

  it('tell rows that left from rows that the page does not reach', () => {
    const left = (loaded: Row[], page: Row[], isLast: boolean) => merge(loaded, page, isLast).departed.map(Number);
    expect(left([row(5), row(4), row(3), row(2), row(1)], [row(6), row(5), row(3)], false)).toEqual([4]);
    expect(left([row(5), row(4), row(3)], [row(5)], true)).toEqual([4, 3]);
    expect(left([row(5), row(4)], [row(9), row(8)], false)).toEqual([]);
    expect(left([row(5)], [row(4), row(3)], false)).toEqual([5]);
    expect(left([row(5)], [], true)).toEqual([5]);
    expect(left([row(5), row(4), row(3)], [row(5), row(4), row(2)], false)).toEqual([3]);
  });

  it('do not announce an older row that slides into the first page after a deletion', () => {
    expect(ids(merge([row(5), row(4), row(3)], [row(5), row(3), row(2)], false).fresh)).toEqual([]);
    expect(ids(merge([row(5), row(4), row(3)], [row(5), row(4), row(2)], false).fresh)).toEqual([]);
    expect(ids(merge([row(5), row(4)], [row(5), row(4), row(3)], true).fresh)).toEqual([3]);
    expect(ids(merge([row(9), row(7), row(2)], [row(9), row(5)], false).fresh)).toEqual([5]);
  });

  it('give a row that begins to match its place', () => {
    expect(ids(insertRows([row(9), row(3)], [row(5)], idOf, timeOf))).toEqual([9, 5, 3]);
  });

  it('show every row once, however pages and new rows interleave', () => {
    let rows = appendPage([row(6), row(5)], [row(5), row(4)], idOf);
    rows = insertRows(rows, merge(rows, [row(8), row(7), row(6)], false).fresh, idOf, timeOf);
    rows = insertRows(rows, merge(rows, [row(8), row(7), row(6)], false).fresh, idOf, timeOf);
    rows = appendPage(rows, [row(4), row(3)], idOf);
    expect(ids(rows)).toEqual([8, 7, 6, 5, 4, 3]);
  });

  it('show a window of constant size', () => {
    expect(visibleRange(0, 800, 40, 100_000, 6)).toEqual([0, 26]);
    expect(visibleRange(2_000_000, 800, 40, 100_000, 6)).toEqual([49_994, 50_026]);
    expect(visibleRange(4_000_000, 800, 40, 10, 6)).toEqual([10, 10]);
  });
});

/** A list over numbers from `newest` down to 1, in pages of two. */
class Numbers extends CursorList<Row> {
  newest = 4;
  isFailing = false;
  reads = 0;

  async change(newest: number): Promise<void> {
    this.newest = newest;
    await this.open(null);
  }

  reopen = (kept: LoadedRows<Row> | null) => this.open(kept);

  refresh = async () => this.apply(await this.read());

  protected idOf = idOf;

  protected timeOf = timeOf;

  /** Ids that were deleted. */
  deleted: number[] = [];

  protected read(after?: string): Promise<Page<Row>> {
    this.reads += 1;
    if (this.isFailing) return Promise.reject(new Error('unavailable'));
    const first = after ? Number(after) - 1 : this.newest;
    const rows = [first, first - 1].filter((id) => id > 0 && !this.deleted.includes(id)).map((id) => row(id));
    return Promise.resolve({ rows, next: first > 2 ? String(first - 1) : null });
  }
}

describe('list of cursor pages', () => {
  it('reads older pages until the last one', async () => {
    const list = new Numbers();
    await list.reset();
    expect([ids(list.rows), list.atEnd]).toEqual([[4, 3], false]);
    await list.loadMore();
    expect([ids(list.rows), list.atEnd]).toEqual([[4, 3, 2, 1], true]);
  });

  it('announces new rows, and inserts them on request', async () => {
    const list = new Numbers();
    await list.reset();
    list.newest = 5;
    await list.refresh();
    expect([ids(list.rows), ids(list.fresh), list.freshIsMore]).toEqual([[4, 3], [5], false]);
    list.showFresh();
    expect([ids(list.rows), ids(list.fresh)]).toEqual([[5, 4, 3], []]);
  });

  it('starts again after a gap, so that no row is missing', async () => {
    const list = new Numbers();
    await list.reset();
    list.newest = 9;
    await list.refresh();
    expect([ids(list.rows), list.freshIsMore]).toEqual([[4, 3], true]);
    list.showFresh();
    await list.loadMore();
    expect(ids(list.rows)).toEqual([9, 8, 7, 6]);
  });

  it('shows the first rows of an empty list at once', async () => {
    const list = new Numbers();
    list.newest = 0;
    await list.reset();
    list.newest = 1;
    await list.refresh();
    expect([ids(list.rows), list.fresh.length]).toEqual([[1], 0]);
  });

  it('keeps its rows when an older page fails, and forgets the failure afterwards', async () => {
    const list = new Numbers();
    await list.reset();
    list.isFailing = true;
    await list.loadMore();
    expect([ids(list.rows), list.moreError !== null]).toEqual([[4, 3], true]);
    list.isFailing = false;
    await list.retryMore();
    expect([ids(list.rows), list.moreError]).toEqual([[4, 3, 2, 1], null]);
  });

  it('asks for a failed older page on request only', async () => {
    const list = new Numbers();
    await list.reset();
    list.isFailing = true;
    await list.loadMore();
    await list.loadMore();
    expect(list.reads).toBe(2);
    await list.retryMore();
    expect(list.reads).toBe(3);
  });

  it('has no rows and no cursor of the old filters after a failed change', async () => {
    const list = new Numbers();
    await list.reset();
    list.isFailing = true;
    await list.change(9);
    await list.loadMore();
    expect([ids(list.rows), list.error !== null, list.reads]).toEqual([[], true, 2]);
    list.isFailing = false;
    await list.refresh();
    expect([ids(list.rows), list.fresh]).toEqual([[9, 8], []]);
    await list.loadMore();
    expect(ids(list.rows)).toEqual([9, 8, 7, 6]);
  });

  it('removes a row that left, but not while a reader points at the rows', async () => {
    const list = new Numbers();
    await list.reset();
    list.holdRows();
    list.deleted = [4];
    await list.refresh();
    expect([ids(list.rows), [...list.departed]]).toEqual([[4, 3], ['4']]);
    list.releaseRows();
    expect([ids(list.rows), list.departed.size]).toEqual([[3], 0]);
    list.newest = 2;
    await list.refresh();
    expect(ids(list.rows)).toEqual([2, 1]);
  });

  it('is shown again as it was left', async () => {
    const list = new Numbers();
    await list.reset();
    await list.loadMore();
    const left = new Numbers();
    await left.reset();
    const kept = left.loaded();
    await list.reopen(kept);
    expect([ids(list.rows), list.loading, list.atEnd, list.reads]).toEqual([[4, 3], false, false, 2]);
    await list.loadMore();
    expect(ids(list.rows)).toEqual([4, 3, 2, 1]);
    expect(new Numbers().loaded()).toBeNull();
  });

  it('reads older pages of new filters while one of the old filters is on its way', async () => {
    const list = new Numbers();
    await list.reset();
    const old = list.loadMore();
    await list.change(9);
    await Promise.all([old, list.loadMore()]);
    expect(ids(list.rows)).toEqual([9, 8, 7, 6]);
  });

  it('drops the answer that a newer reset has overtaken', async () => {
    const list = new Numbers();
    const first = list.reset();
    list.newest = 2;
    await Promise.all([first, list.reset()]);
    expect([ids(list.rows), list.loading]).toEqual([[2, 1], false]);
  });
});
