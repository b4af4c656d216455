import type { ViolationCount } from '$lib/api/additions';
import type { Schemas } from '$lib/api/client';

type Row = Schemas['StatsRow'];

export interface Totals {
  runs: number;
  success: number | null;
  firstPass: number | null;
  retries: number;
  tokensPerResult: number | null;
}

/** Sums rows. Tokens per valid result count the tokens of failed runs too. */
export function totals(rows: Row[]): Totals {
  const sum = (value: (row: Row) => number) => rows.reduce((total, row) => total + value(row), 0);
  const runs = sum((row) => row.runs);
  const completed = sum((row) => row.completed);
  const valid = completed + sum((row) => row.reported_errors);
  return {
    runs,
    success: runs > 0 ? completed / runs : null,
    firstPass: valid > 0 ? sum((row) => row.first_pass) / valid : null,
    retries: sum((row) => row.retries),
    tokensPerResult: completed > 0 ? sum((row) => row.tokens) / completed : null,
  };
}

export interface HeatMap {
  paths: string[];
  backends: string[];
  count: (path: string, backend: string) => number;
  max: number;
}

/** Arranges violation counts as a table of schema paths and backends, most frequent paths first. */
export function heatMap(counts: ViolationCount[]): HeatMap {
  const cells = new Map<string, number>();
  const byPath = new Map<string, number>();
  const backends = new Set<string>();
  for (const { path, backend, count } of counts) {
    const name = backend ?? '–';
    backends.add(name);
    cells.set(`${path}\n${name}`, (cells.get(`${path}\n${name}`) ?? 0) + count);
    byPath.set(path, (byPath.get(path) ?? 0) + count);
  }
  return {
    paths: [...byPath.keys()].sort((a, b) => (byPath.get(b) ?? 0) - (byPath.get(a) ?? 0)),
    backends: [...backends].sort(),
    count: (path, backend) => cells.get(`${path}\n${backend}`) ?? 0,
    max: Math.max(0, ...cells.values()),
  };
}

export const PERIODS = { '24h': 24, '7d': 7 * 24, '30d': 30 * 24 } as const;
export type Period = keyof typeof PERIODS | 'all';

export function isPeriod(value: string | null): value is Period {
  return value === 'all' || (value !== null && value in PERIODS);
}

/** Returns the start of a period; null for all time. */
export function sinceOf(period: Period, now: number): string | null {
  return period === 'all' ? null : new Date(now - PERIODS[period] * 3_600_000).toISOString();
}
