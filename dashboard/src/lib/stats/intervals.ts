import type { TimelineRow } from '$lib/api/types';
import type { Period } from './figures';
import { sinceOf } from './figures';

const DAY_MS = 86_400_000;

/** The server returns at most 1,000 intervals; the margin allows for clocks that differ. */
const DAYS_MAX = 998;

/** Bars that a chart shows side by side; more would be too thin to point at. */
const BARS_MAX = 120;

/** Days that one bar may stand for: a day, a week, four weeks. */
const DAYS_PER_BAR = [1, 7, 28];

export interface TimelineQuery {
  interval: 'hour' | 'day';
  since: string;
}

/** Returns the query for the chart of a period. All time is as many days as the server returns. */
export function timelineQuery(period: Period, now: number): TimelineQuery {
  return { interval: period === '24h' ? 'hour' : 'day', since: sinceOf(period, now) ?? new Date(now - DAYS_MAX * DAY_MS).toISOString() };
}

/** The bars of a chart, and what they stand for. */
export interface Bars {
  rows: TimelineRow[];
  /** Hours are labelled in the time zone of the browser. Days are days in UTC, as the server counts them. */
  interval: 'hour' | 'day';
  daysPerBar: number;
}

function sum(rows: TimelineRow[]): TimelineRow {
  const total = { ...(rows[0] as TimelineRow) };
  for (const row of rows.slice(1)) {
    for (const name of ['runs', 'completed', 'failed', 'first_pass', 'retries', 'tokens'] as const) total[name] += row[name];
  }
  return total;
}

/** Arranges intervals as bars. All time starts with the first run, and a long time has one bar for several days. */
export function barsOf(rows: TimelineRow[], period: Period): Bars {
  const interval = period === '24h' ? 'hour' : 'day';
  const first = period === 'all' ? Math.max(0, rows.findIndex((row) => row.runs > 0)) : 0;
  const shown = rows.slice(first);
  const daysPerBar = interval === 'hour' ? 1 : (DAYS_PER_BAR.find((days) => shown.length <= days * BARS_MAX) ?? 28);
  const groups = Array.from({ length: Math.ceil(shown.length / daysPerBar) }, (_, index) => shown.slice(index * daysPerBar, (index + 1) * daysPerBar));
  return { rows: groups.map(sum), interval, daysPerBar };
}

const DAY = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
const HOUR = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const UNITS: Record<number, string> = { 1: 'day', 7: 'week', 28: 'four weeks' };

/** Returns the start of a bar as text. */
export function startOf(row: TimelineRow, { interval }: Bars): string {
  return (interval === 'hour' ? HOUR : DAY).format(new Date(row.start));
}

/** Says what the bars cover, in which time zone. `total` is the number of runs of the whole period. */
export function coverage(bars: Bars, total: number): string {
  const { rows, interval, daysPerBar } = bars;
  const [first] = rows;
  if (!first) return '';
  if (interval === 'hour') return `One bar per hour, in the time zone of your browser (${Intl.DateTimeFormat().resolvedOptions().timeZone}), since ${startOf(first, bars)}.`;
  const isPartial = rows.reduce((count, row) => count + row.runs, 0) < total;
  return `One bar per ${UNITS[daysPerBar]}, with days in UTC, since ${startOf(first, bars)}.${isPartial ? ' Older runs are in the figures, but not in the chart.' : ''}`;
}
