import { describe, expect, it } from 'vitest';
import { clientLines } from './connect';
import { NO_REQUEST_FILTERS, parseRequestFilters, requestApiQuery, requestFilterQuery } from './filters';
import { outcomeOf } from './outcome';
import type { GatewayRequest } from '$lib/api/types';
import { verdictChip } from '$lib/runs/verdict';

describe('filters of requests', () => {
  it('survive the way through the address', () => {
    const filters = { backend: 'a b&c', status: 'failed' } as const;
    expect(parseRequestFilters(new URLSearchParams(requestFilterQuery(filters)))).toEqual(filters);
    expect(requestFilterQuery(NO_REQUEST_FILTERS)).toBe('');
  });

  it('ignore unknown statuses', () => {
    expect(parseRequestFilters(new URLSearchParams('status=running&other=1'))).toEqual(NO_REQUEST_FILTERS);
  });

  it('become parameters of the request, without empty ones', () => {
    expect(requestApiQuery({ backend: 'local', status: '' })).toEqual({ backend: 'local' });
  });
});

describe('chip of a request', () => {
  const request = (members: Partial<GatewayRequest>) => ({ status: 'completed', retry_count: 0, repairs: 0, has_contract: true, ...members }) as GatewayRequest;
  it.each([
    [request({ verdict: 'first_pass' }), 'first pass'],
    [request({ verdict: 'repaired', repairs: 2 }), '2 repairs'],
    [request({ verdict: 'retried', retry_count: 1 }), '1 retry'],
    [request({ verdict: 'escalated' }), 'escalated'],
    [request({ verdict: null, has_contract: false }), 'no schema'],
    [request({ status: 'failed', error_type: 'backend_unavailable', error_message: 'refused' }), 'backend unavailable'],
    [request({ status: 'failed', error_type: 'output_schema_validation_failed' }), 'schema validation failed'],
  ])('says how the request ended', (value, text) => expect(verdictChip(outcomeOf(value)).text).toBe(text));
});

describe('lines of a client', () => {
  it('name the server and a model', () => {
    expect(clientLines('http://127.0.0.1:8765', 'agent/triage', false)).toEqual({ baseUrl: 'base_url="http://127.0.0.1:8765/v1"', apiKey: 'api_key="unused"', model: 'model="agent/triage"' });
    expect(clientLines('https://host', 'local', true).apiKey).toContain('SLIPFORM_TOKEN');
  });
});
