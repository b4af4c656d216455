/** A row of a list that is read in cursor pages, newest first. */
export interface Row {
  run_id: string;
}

/** Rows that were loaded without gaps, from the newest known to the oldest loaded. */
export interface Pages<T extends Row> {
  rows: T[];
  next: string | null;
}

export interface FirstPageMerge<T extends Row> {
  /** The loaded rows, with those of the page updated in place. */
  rows: T[];
  /** Rows of the page that are newer than the loaded ones, newest first. */
  fresh: T[];
  /** Whether rows between the page and the loaded rows may be missing. */
  gap: boolean;
}

/** Compares a newly read first page with the loaded rows, without inserting anything. */
export function mergeFirstPage<T extends Row>(loaded: T[], page: T[], pageIsLast: boolean): FirstPageMerge<T> {
  const updates = new Map(page.map((row) => [row.run_id, row]));
  const known = new Set(loaded.map((row) => row.run_id));
  const fresh = page.filter((row) => !known.has(row.run_id));
  const overlap = fresh.length < page.length;
  return {
    rows: loaded.map((row) => updates.get(row.run_id) ?? row),
    fresh,
    gap: !overlap && !pageIsLast && loaded.length > 0,
  };
}

/** Appends an older page. Rows that are already loaded are skipped, because pages shift when sessions are deleted. */
export function appendPage<T extends Row>(loaded: T[], page: T[]): T[] {
  const known = new Set(loaded.map((row) => row.run_id));
  return [...loaded, ...page.filter((row) => !known.has(row.run_id))];
}

/** Puts fresh rows in front of the loaded ones. */
export function prependRows<T extends Row>(loaded: T[], fresh: T[]): T[] {
  const known = new Set(fresh.map((row) => row.run_id));
  return [...fresh, ...loaded.filter((row) => !known.has(row.run_id))];
}

/** Returns the visible range of a list with rows of equal height. */
export function visibleRange(scrollTop: number, height: number, rowHeight: number, count: number, overscan: number): [number, number] {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - overscan);
  const last = Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + overscan);
  return [Math.min(first, count), last];
}
