/** A page of a list that is read with cursors, newest first. */
export interface Page<T> {
  rows: T[];
  /** Cursor of the next page; null on the last one. */
  next: string | null;
}

/** Returns the id of a row. */
export type IdOf<T> = (row: T) => string;

/** Says in milliseconds when a row entered the list. Rows that entered together may be in either order. */
export type TimeOf<T> = (row: T) => number;

/** A newly read first page, and what identifies its rows. */
export interface FirstPage<T> {
  rows: T[];
  /** Whether the list has no further page. */
  isLast: boolean;
  /** Whether the list has rows after the loaded ones, which later pages bring. */
  hasMore: boolean;
  idOf: IdOf<T>;
  timeOf: TimeOf<T>;
}

export interface FirstPageMerge<T> {
  /** The loaded rows, with those of the page updated in place. */
  rows: T[];
  /** Rows of the page that belong to the loaded part of the list and are not in it, newest first. */
  fresh: T[];
  /** Ids of loaded rows that the page should have and has not: they were deleted, or no longer match the filters. */
  departed: string[];
  /** Whether rows between the page and the loaded rows may be missing. */
  gap: boolean;
}

/** Compares a newly read first page with the loaded rows, without inserting or removing anything. */
export function mergeFirstPage<T>(loaded: T[], { rows: page, isLast, hasMore, idOf, timeOf }: FirstPage<T>): FirstPageMerge<T> {
  const updates = new Map(page.map((row) => [idOf(row), row]));
  const ids = loaded.map(idOf);
  const known = new Set(ids);
  const lastKnown = page.findLastIndex((row) => known.has(idOf(row)));
  const covered = ids.findLastIndex((id) => updates.has(id));
  const oldest = loaded.at(-1);
  const newest = page[0];
  // Loaded rows are contiguous, so a row below all of them has slid into the page after deletions; a later page brings it.
  const below = loaded.slice(covered + 1);
  const hasSlid = (row: T, index: number) => hasMore && index > lastKnown && lastKnown >= 0 && !below.some((other) => timeOf(other) < timeOf(row));
  const isBehind = lastKnown < 0 && oldest !== undefined && newest !== undefined && timeOf(oldest) > timeOf(newest);
  const unknown = page.map((row, index) => ({ row, isOlder: isBehind || hasSlid(row, index) })).filter(({ row }) => !known.has(idOf(row)));
  const isComplete = isLast || unknown.some(({ isOlder }) => isOlder);
  return {
    rows: loaded.map((row) => updates.get(idOf(row)) ?? row),
    fresh: unknown.filter(({ isOlder }) => !isOlder).map(({ row }) => row),
    departed: ids.filter((id, index) => !updates.has(id) && (isComplete || index < covered)),
    gap: lastKnown < 0 && !isLast && loaded.length > 0,
  };
}

/** Appends an older page, without the rows that the end of the loaded ones already has. */
export function appendPage<T>(loaded: T[], page: T[], idOf: IdOf<T>): T[] {
  const known = new Set(loaded.slice(-page.length).map(idOf));
  return [...loaded, ...page.filter((row) => !known.has(idOf(row)))];
}

/** Inserts fresh rows. Most belong in front; a row that has begun to match the filters has its place among the others. */
export function insertRows<T>(loaded: T[], fresh: T[], idOf: IdOf<T>, timeOf: TimeOf<T>): T[] {
  const known = new Set(fresh.map(idOf));
  const rest = loaded.filter((row) => !known.has(idOf(row)));
  const rows: T[] = [];
  let at = 0;
  for (const row of fresh) {
    const time = timeOf(row);
    // A list may have 100,000 rows, so that each is looked at once.
    for (let next = rest[at]; next !== undefined && timeOf(next) > time; next = rest[at]) {
      rows.push(next);
      at += 1;
    }
    rows.push(row);
  }
  return [...rows, ...rest.slice(at)];
}

/** Returns the visible range of a list with rows of equal height. */
export function visibleRange(scrollTop: number, height: number, rowHeight: number, count: number, overscan: number): [number, number] {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - overscan);
  const last = Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + overscan);
  return [Math.min(first, count), last];
}
