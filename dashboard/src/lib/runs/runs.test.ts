import { describe, expect, it } from 'vitest';
import { beforeEndOf, lastDayBefore, isCompleteTime, localInput } from './dates';
import { apiQuery, cliWords, filterQuery, isFiltered, NO_FILTERS, matches, parseFilters } from './filters';
import { verdictChip } from './verdict';
import type { RunSummary } from '$lib/api/types';
import { namedBackends } from './backends';

describe('filters', () => {
  it('survive the way through the address', () => {
    const filters = { ...NO_FILTERS, agent: 'a b', status: 'failed', verdict: 'retried', since: '2026-11-18T10:00' };
    expect(parseFilters(new URLSearchParams(filterQuery(filters)))).toEqual(filters);
  });

  it('ignore unknown values', () => {
    expect(parseFilters(new URLSearchParams('status=odd&verdict=x&error=tool&since=soon&other=1'))).toEqual(NO_FILTERS);
    expect(isFiltered(NO_FILTERS)).toBe(false);
  });

  it('become parameters of the request', () => {
    expect(apiQuery({ ...NO_FILTERS, agent: 'a', error: 'timeout', before: '2026-11-18T10:00:00Z' })).toEqual({ agent_name: 'a', error_type: 'timeout', created_before: '2026-11-18T10:00:00.000Z' });
  });

  it('become a command only if the command has all of them', () => {
    expect(cliWords({ ...NO_FILTERS, agent: 'a', status: 'failed' })).toEqual(['runs', 'list', '--agent', 'a', '--status', 'failed']);
    expect(cliWords({ ...NO_FILTERS, agent: 'a', verdict: 'retried' })).toBeNull();
  });
});

describe('jump to a date', () => {
  it('starts the list with the last run of the day', () => {
    expect(beforeEndOf('2026-11-18')).toBe('2026-11-19T00:00');
    expect(beforeEndOf('2026-12-31')).toBe('2027-01-01T00:00');
  });

  it('ignores a day that is being typed', () => {
    expect(beforeEndOf('0202-11-18')).toBeNull();
    expect(beforeEndOf('')).toBeNull();
  });

  it('shows the day of a limit', () => {
    expect(lastDayBefore('2026-11-19T00:00')).toBe('2026-11-18');
    expect(lastDayBefore('2026-11-18T10:30')).toBe('2026-11-18');
    expect(lastDayBefore('')).toBe('');
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
    [run({}), 'no schema'],
    [run({ status: 'running', retry_count: 1, max_retries: 2 }), 'retry 1/2'],
    [run({ status: 'pending' }), '–'],
    [run({ status: 'stopped' }), 'no result'],
  ])('says how the run ended', (value, text) => expect(verdictChip(value).text).toBe(text));

  it('is calm for a retry that succeeded', () => {
    expect(verdictChip(run({ verdict: 'retried', retry_count: 1 })).tone).toBe('accent');
  });
});

describe('backends', () => {
  it('are listed once by name, with all their models', () => {
    const rows = [{ name: 'local', model: 'small' }, { name: 'local', model: 'large' }, { name: 'local', model: 'small' }, { name: 'bare', model: null }];
    expect(namedBackends(rows)).toEqual([{ name: 'local', models: ['small', 'large'] }, { name: 'bare', models: [] }]);
  });
});

describe('times', () => {
  it('in an address are shown in the time zone of the browser', () => {
    const shown = localInput('2026-01-01T00:00:00Z');
    expect([shown.length, new Date(shown).getTime()]).toEqual([16, Date.parse('2026-01-01T00:00:00Z')]);
    expect([localInput('2026-03-04T05:06'), localInput(''), localInput('x')]).toEqual(['2026-03-04T05:06', '', '']);
  });

  it('that are being typed are not complete', () => {
    expect(['0002-03-04T05:06', '0202-03-04T05:06', '2026-03-04T05:06', ''].map(isCompleteTime)).toEqual([false, false, true, true]);
  });
});

describe('filters of a shown run', () => {
  it('tell whether it still matches', () => {
    const run = { agent_name: 'a', status: 'failed', backend: 'b', verdict: null, error: { type: 'timeout', message: '' } } as unknown as Parameters<typeof matches>[0];
    expect(matches(run, { ...NO_FILTERS, agent: 'a', status: 'failed', error: 'timeout' })).toBe(true);
    expect([matches(run, { ...NO_FILTERS, status: 'running' }), matches(run, { ...NO_FILTERS, verdict: 'retried' })]).toEqual([false, false]);
  });
});
