import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { jsonLine } from '$lib/json/exact';

const EXACT = '{"name":"wide","schema":{"const":9007199254740993,"maximum":1e400}}';
const fetched = vi.fn<(request: Request) => Promise<Response>>();

beforeEach(() => {
  vi.stubGlobal('location', { origin: 'http://server' });
  vi.stubGlobal('sessionStorage', { getItem: () => null });
  vi.stubGlobal('fetch', fetched);
});
afterEach(() => vi.unstubAllGlobals());

it('numbers beyond the precision of a double are read and sent with all digits', async () => {
  const { client } = await import('./client');
  fetched.mockImplementation(() => Promise.resolve(new Response(EXACT, { headers: { 'content-type': 'application/json' } })));
  const { data } = await client.GET('/schemas/{name}', { params: { path: { name: 'wide' } } });
  expect(jsonLine(data)).toBe(EXACT);
  await client.POST('/schemas', { body: data as never });
  const sent = fetched.mock.lastCall?.[0];
  expect([await sent?.text(), sent?.headers.get('content-type')]).toEqual([EXACT, 'application/json']);
});

it('answers without a body, errors and texts on request are passed on', async () => {
  const { client, unwrap } = await import('./client');
  fetched.mockResolvedValueOnce(new Response(null, { status: 204 }));
  expect((await client.DELETE('/schemas/{name}', { params: { path: { name: 'x' } } })).data).toBeUndefined();
  fetched.mockResolvedValueOnce(Response.json({ error: 'SchemaNotFound', message: 'no schema `x`' }, { status: 404 }));
  await expect(unwrap(client.GET('/schemas/{name}', { params: { path: { name: 'x' } } }))).rejects.toThrow('no schema `x`');
  fetched.mockResolvedValueOnce(new Response(EXACT));
  expect((await client.GET('/runs/{run_id}', { params: { path: { run_id: 'r' } }, parseAs: 'text' })).data).toBe(EXACT);
});
