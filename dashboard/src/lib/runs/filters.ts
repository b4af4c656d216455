import type { RunSummary } from '$lib/api/types';
import { FAILURE_TYPES } from '$lib/session/outcome';

/** Filters of the run list, as they stand in the address of the page. */
export interface RunFilters {
  agent: string;
  status: string;
  backend: string;
  verdict: string;
  error: string;
  since: string;
  before: string;
}

export const NO_FILTERS: RunFilters = { agent: '', status: '', backend: '', verdict: '', error: '', since: '', before: '' };

export const STATUSES = ['pending', 'claimed', 'running', 'waiting', 'stopping', 'completed', 'failed', 'stopped'] as const;
export const VERDICTS = ['first_pass', 'repaired', 'retried', 'escalated'] as const;

/** Names of the filters in requests. The last five need API additions. */
const PARAMETERS: Record<keyof RunFilters, string> = {
  agent: 'agent_name',
  status: 'status',
  backend: 'backend',
  verdict: 'verdict',
  error: 'error_type',
  since: 'created_after',
  before: 'created_before',
};

const isOneOf = (values: readonly string[], value: string) => (values.includes(value) ? value : '');

function time(value: string): string {
  return value !== '' && !Number.isNaN(Date.parse(value)) ? value : '';
}

/** Reads filters from a query string. Unknown statuses, verdicts, failure types and times are ignored. */
export function parseFilters(query: URLSearchParams): RunFilters {
  const read = (name: string) => query.get(name)?.trim() ?? '';
  return {
    agent: read('agent'),
    status: isOneOf(STATUSES, read('status')),
    backend: read('backend'),
    verdict: isOneOf(VERDICTS, read('verdict')),
    error: isOneOf(FAILURE_TYPES, read('error')),
    since: time(read('since')),
    before: time(read('before')),
  };
}

export function filterQuery(filters: RunFilters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) if (value) query.set(name, value);
  const text = query.toString();
  return text ? `?${text}` : '';
}

/** Returns the query of `GET /runs` for these filters. */
export function apiQuery(filters: RunFilters): Record<string, string> {
  const query: Record<string, string> = {};
  for (const [name, parameter] of Object.entries(PARAMETERS) as [keyof RunFilters, string][]) {
    const value = filters[name];
    if (value) query[parameter] = name === 'since' || name === 'before' ? new Date(value).toISOString() : value;
  }
  return query;
}

/** Returns the words of the command that lists the same runs; null if the CLI lacks a filter, because it would list others. */
export function cliWords({ agent, status, ...others }: RunFilters): string[] | null {
  if (Object.values(others).some((value) => value !== '')) return null;
  return ['runs', 'list', ...(agent ? ['--agent', agent] : []), ...(status ? ['--status', status] : [])];
}

/** Whether a run still matches the filters. Its time of creation does not change. */
export function matches(run: RunSummary, { agent, status, backend, verdict, error }: RunFilters): boolean {
  const isEqual = (wanted: string, value: string | null | undefined) => wanted === '' || wanted === value;
  return isEqual(agent, run.agent_name) && isEqual(status, run.status) && isEqual(backend, run.backend) && isEqual(verdict, run.verdict) && isEqual(error, run.error?.type);
}

export function isFiltered(filters: RunFilters): boolean {
  return Object.values(filters).some((value) => value !== '');
}
