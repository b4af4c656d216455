import { describe, expect, it } from 'vitest';
import { apiQuery, filterQuery, isFiltered, NO_FILTERS, parseFilters } from './filters';
import { appendPage, mergeFirstPage, prependRows, visibleRange } from './pages';
import { verdictChip } from './verdict';
import type { RunSummary } from '$lib/api/additions';

const row = (id: number, status = 'completed') => ({ run_id: `run_${id}`, status });
const ids = (rows: { run_id: string }[]) => rows.map((item) => Number(item.run_id.slice(4)));

describe('filters', () => {
  it('survive the way through the address', () => {
    const filters = { ...NO_FILTERS, agent: 'a b', status: 'failed', verdict: 'retried', since: '2026-11-18T10:00' };
    expect(parseFilters(new URLSearchParams(filterQuery(filters)))).toEqual(filters);
  });

  it('ignore unknown values', () => {
    expect(parseFilters(new URLSearchParams('status=odd&verdict=x&since=soon&other=1'))).toEqual(NO_FILTERS);
    expect(isFiltered(NO_FILTERS)).toBe(false);
  });

  it('become parameters of the request', () => {
    expect(apiQuery({ ...NO_FILTERS, agent: 'a', error: 'timeout', before: '2026-11-18T10:00:00Z' })).toEqual({ agent_name: 'a', error_type: 'timeout', created_before: '2026-11-18T10:00:00.000Z' });
  });
});

describe('pages', () => {
  it('count new rows without inserting them', () => {
    const merged = mergeFirstPage([row(3), row(2), row(1)], [row(5), row(4), row(3, 'failed')], false);
    expect(ids(merged.rows)).toEqual([3, 2, 1]);
    expect(merged.rows[0]?.status).toBe('failed');
    expect(ids(merged.fresh)).toEqual([5, 4]);
    expect(merged.gap).toBe(false);
  });

  it('report a gap when the first page does not reach the loaded rows', () => {
    expect(mergeFirstPage([row(1)], [row(9), row(8)], false).gap).toBe(true);
    expect(mergeFirstPage([row(1)], [row(9), row(8)], true).gap).toBe(false);
    expect(mergeFirstPage([], [row(9)], false).gap).toBe(false);
  });

  it('show every row once, however pages and new rows interleave', () => {
    let rows = appendPage([row(6), row(5)], [row(5), row(4)]);
    rows = prependRows(rows, mergeFirstPage(rows, [row(8), row(7), row(6)], false).fresh);
    rows = prependRows(rows, mergeFirstPage(rows, [row(8), row(7), row(6)], false).fresh);
    rows = appendPage(rows, [row(4), row(3)]);
    expect(ids(rows)).toEqual([8, 7, 6, 5, 4, 3]);
  });

  it('show a window of constant size', () => {
    expect(visibleRange(0, 800, 40, 100_000, 6)).toEqual([0, 26]);
    expect(visibleRange(2_000_000, 800, 40, 100_000, 6)).toEqual([49_994, 50_026]);
    expect(visibleRange(4_000_000, 800, 40, 10, 6)).toEqual([10, 10]);
  });
});

describe('verdict chip', () => {
  const run = (members: Partial<RunSummary>) => ({ status: 'completed', retry_count: 0, ...members }) as RunSummary;
  it.each([
    [run({ verdict: 'first_pass' }), 'first pass'],
    [run({ verdict: 'repaired', repairs: 3 }), '3 repairs'],
    [run({ verdict: 'repaired', repairs: 1 }), '1 repair'],
    [run({ verdict: 'retried', retry_count: 1, max_retries: 1 }), 'retry 1/1'],
    [run({ verdict: 'escalated', retry_count: 1 }), 'escalated'],
    [run({ status: 'failed', error: { type: 'output_schema_validation_failed', message: '' } }), 'schema validation failed'],
    [run({ retry_count: 2 }), '2 retries'],
  ])('says how the run ended', (value, text) => expect(verdictChip(value)?.text).toBe(text));

  it('is calm for a retry that succeeded', () => {
    expect(verdictChip(run({ verdict: 'retried', retry_count: 1 }))?.tone).toBe('accent');
    expect(verdictChip(run({}))).toBeNull();
  });
});
