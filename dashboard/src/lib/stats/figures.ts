import type { ViolationsRow } from '$lib/api/types';
import type { Schemas } from '$lib/api/client';

type Row = Schemas['StatsRow'];

export interface Totals {
  runs: number;
  success: number | null;
  /** Share of completed runs whose first reply was accepted, as written or after repairs. */
  firstPass: number | null;
  retries: number;
  tokensPerResult: number | null;
}

/** The name of the row that sums the requests of the gateway. */
export const GATEWAY = '(gateway)';

export function agentLabel(name: string): string {
  return name === GATEWAY ? 'Gateway' : name;
}

export function backendLabel({ backend, model }: Pick<Row, 'backend' | 'model'>): string {
  return backend ? `${backend}${model ? ` (${model})` : ''}` : '–';
}

/** Returns the list of what a row counts: runs of an agent, or requests of the gateway. */
export function listPath({ agent_name, backend }: Pick<Row, 'agent_name' | 'backend'>): string {
  if (agent_name === GATEWAY) return backend ? `/gateway?backend=${encodeURIComponent(backend)}` : '/gateway';
  return `/runs?agent=${encodeURIComponent(agent_name)}`;
}

/** Sums rows. Tokens per valid result count the tokens of failed runs too. */
export function totals(rows: Row[]): Totals {
  const sum = (value: (row: Row) => number) => rows.reduce((total, row) => total + value(row), 0);
  const runs = sum((row) => row.runs);
  const completed = sum((row) => row.completed);
  return {
    runs,
    success: runs > 0 ? completed / runs : null,
    firstPass: completed > 0 ? sum((row) => row.first_pass) / completed : null,
    retries: sum((row) => row.retries),
    tokensPerResult: completed > 0 ? sum((row) => row.tokens) / completed : null,
  };
}

export interface HeatMap {
  paths: string[];
  backends: string[];
  count: (path: string, backend: string) => number;
  max: number;
  /** Whether the server has left out places. */
  isCut: boolean;
}

/** Places that the server returns at most, each with a backend. */
export const PLACES_MAX = 500;

/** Arranges violation counts as a table of schema paths and backends, most frequent paths first. */
export function heatMap(counts: ViolationsRow[]): HeatMap {
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
    isCut: counts.length >= PLACES_MAX,
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
