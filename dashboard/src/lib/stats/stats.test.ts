import { describe, expect, it } from 'vitest';
import type { TimelineRow } from '$lib/api/types';
import { agentLabel, backendLabel, GATEWAY, heatMap, listPath } from './figures';
import { barsOf, coverage, timelineQuery } from './intervals';

describe('rows of the statistics', () => {
  it('name the gateway, and lead to its requests', () => {
    expect(agentLabel(GATEWAY)).toBe('Gateway');
    expect(listPath({ agent_name: GATEWAY, backend: 'a b' })).toBe('/gateway?backend=a%20b');
    expect(listPath({ agent_name: GATEWAY, backend: null })).toBe('/gateway');
  });

  it('lead from an agent to its runs', () => {
    expect(agentLabel('triage')).toBe('triage');
    expect(listPath({ agent_name: 'triage', backend: 'local' })).toBe('/runs?agent=triage');
  });

  it('name the backend with its model', () => {
    expect(backendLabel({ backend: 'local', model: 'qwen' })).toBe('local (qwen)');
    expect(backendLabel({ backend: null, model: null })).toBe('–');
  });
});

describe('chart of the statistics', () => {
  const now = Date.UTC(2026, 5, 1, 12);
  const day = (index: number, runs: number): TimelineRow => ({ start: new Date(Date.UTC(2024, 0, 1 + index)).toISOString(), runs, completed: runs, failed: 0, first_pass: runs, retries: 1, tokens: 2 });
  const days = (count: number, first = 0) => Array.from({ length: count }, (_, index) => day(index, index < first ? 0 : 1));

  it('covers all time as far as the server returns days', () => {
    const { interval, since } = timelineQuery('all', now);
    expect(interval).toBe('day');
    const count = Math.ceil(now / 86_400_000) - Math.floor(Date.parse(since) / 86_400_000);
    expect(count).toBeGreaterThan(990);
    expect(count).toBeLessThan(1_000);
    expect(timelineQuery('24h', now)).toEqual({ interval: 'hour', since: '2026-05-31T12:00:00.000Z' });
  });

  it('of all time starts with the first run', () => {
    expect(barsOf(days(998, 900), 'all').rows).toHaveLength(98);
    expect(barsOf(days(7, 3), '7d').rows).toHaveLength(7);
  });

  it('has one bar for several days where days would be too thin', () => {
    const weeks = barsOf(days(300), 'all');
    expect(weeks.daysPerBar).toBe(7);
    expect(weeks.rows).toHaveLength(43);
    expect(weeks.rows[1]).toEqual({ ...day(7, 7), retries: 7, tokens: 14 });
    expect(weeks.rows.reduce((sum, row) => sum + row.runs, 0)).toBe(300);
    expect(barsOf(days(998), 'all').daysPerBar).toBe(28);
  });

  it('says what it covers, and in which time zone', () => {
    expect(coverage(barsOf(days(3), '7d'), 3)).toBe('One bar per day, with days in UTC, since 1 Jan 2024.');
    expect(coverage(barsOf(days(200), 'all'), 201)).toBe('One bar per week, with days in UTC, since 1 Jan 2024. Older runs are in the figures, but not in the chart.');
    expect(coverage(barsOf(days(3), '24h'), 3)).toMatch(/^One bar per hour, in the time zone of your browser \(.+\), since 1 Jan 2024, /);
    expect(coverage(barsOf([], 'all'), 0)).toBe('');
  });

  it('knows when the server has left out places', () => {
    const counts = Array.from({ length: 500 }, (_, index) => ({ path: `$.${index}`, backend: 'b', count: 1 }));
    expect([heatMap(counts).isCut, heatMap(counts.slice(1)).isCut]).toEqual([true, false]);
  });
});
