/** A page of a list that is read with cursors, newest first. */
export interface Page<T> {
  rows: T[];
  /** Cursor of the next page; null on the last one. */
  next: string | null;
}

/** Returns the id of a row. */
export type IdOf<T> = (row: T) => string;

export interface FirstPageMerge<T> {
  /** The loaded rows, with those of the page updated in place. */
  rows: T[];
  /** Rows of the page that are newer than the loaded ones, newest first. */
  fresh: T[];
  /** Whether rows between the page and the loaded rows may be missing. */
  gap: boolean;
}

/** Compares a newly read first page with the loaded rows, without inserting anything. */
export function mergeFirstPage<T>(loaded: T[], page: T[], pageIsLast: boolean, idOf: IdOf<T>): FirstPageMerge<T> {
  const updates = new Map(page.map((row) => [idOf(row), row]));
  const known = new Set(loaded.map(idOf));
  const fresh = page.filter((row) => !known.has(idOf(row)));
  const overlap = fresh.length < page.length;
  return {
    rows: loaded.map((row) => updates.get(idOf(row)) ?? row),
    fresh,
    gap: !overlap && !pageIsLast && loaded.length > 0,
  };
}

/** Appends an older page, without the rows that the end of the loaded ones already has. */
export function appendPage<T>(loaded: T[], page: T[], idOf: IdOf<T>): T[] {
  const known = new Set(loaded.slice(-page.length).map(idOf));
  return [...loaded, ...page.filter((row) => !known.has(idOf(row)))];
}

/** Puts fresh rows in front of the loaded ones. */
export function prependRows<T>(loaded: T[], fresh: T[], idOf: IdOf<T>): T[] {
  const known = new Set(fresh.map(idOf));
  return [...fresh, ...loaded.filter((row) => !known.has(idOf(row)))];
}

/** Returns the visible range of a list with rows of equal height. */
export function visibleRange(scrollTop: number, height: number, rowHeight: number, count: number, overscan: number): [number, number] {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - overscan);
  const last = Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + overscan);
  return [Math.min(first, count), last];
}
