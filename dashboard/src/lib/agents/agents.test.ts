import { describe, expect, it } from 'vitest';
import { changeOf, isSame, mergePatch } from './patch';
import { isFixed, outputSchema, retriesOf } from './schema';
import { agentFilterQuery, agentRows, parseAgentFilters } from './rows';
import type { Agent } from '$lib/api/types';
import { jsonLine, parseJson } from '$lib/json/exact';

const agent = (name: string, members: Partial<Agent> = {}) => ({ name, source: 'file', problems: [], ...members }) as unknown as Agent;
const agents = [agent('triage', { description: 'Judges how urgent a message is' }), agent('counter', { type: 'procedural' }), agent('research', { source: 'shipped' })];
const words = (text: string, type = '') => agentRows(agents, { text, type }).map((row) => ('group' in row ? `# ${row.group}` : row.agent.name));

describe('agent list', () => {
  it('puts shipped agents under a heading', () => {
    expect(words('')).toEqual(['triage', 'counter', '# Shipped with Slipform', 'research']);
  });

  it('finds every word in any part, without regard to case', () => {
    expect(words('URGENT tri')).toEqual(['triage']);
    expect(words('urgent counter')).toEqual([]);
  });

  it('filters by type; agents without one are autonomous', () => {
    expect(words('', 'procedural')).toEqual(['counter']);
    expect(words('', 'autonomous')).toEqual(['triage', '# Shipped with Slipform', 'research']);
  });

  it('keeps its filters in the address', () => {
    const filters = { text: 'a b', type: 'procedural' };
    expect(parseAgentFilters(new URLSearchParams(agentFilterQuery(filters)))).toEqual(filters);
    expect(parseAgentFilters(new URLSearchParams('type=odd'))).toEqual({ text: '', type: '' });
  });
});

describe('change of an agent', () => {
  type Members = Record<string, unknown>;
  const isObject = (value: unknown): value is Members => typeof value === 'object' && value !== null && !Array.isArray(value);
  /** Applies a merge patch as RFC 7396 and the server do. */
  function apply(target: unknown, patch: unknown): unknown {
    if (!isObject(patch)) return patch;
    const members = new Map(Object.entries(isObject(target) ? target : {}));
    for (const [key, value] of Object.entries(patch)) {
      if (value === null) members.delete(key);
      else members.set(key, apply(members.get(key), value));
    }
    return Object.fromEntries(members);
  }
  const schema = { type: 'object', required: ['a'], properties: { a: { enum: [1, null] }, b: { type: 'string' }, constructor: {} } };

  it.each<[string, Members]>([
    ['a removed property', { ...schema, properties: { a: { enum: [1, null] } } }],
    ['a removed required', { type: 'object', properties: schema.properties }],
    ['a removed enum', { ...schema, properties: { ...schema.properties, a: {} } }],
    ['an object instead of a list', { ...schema, required: { a: { b: 1 } } }],
    ['a member named __proto__', { ...schema, properties: JSON.parse('{"__proto__": {"type": "string"}}') as unknown }],
    ['null inside a list', { ...schema, allOf: [{ properties: { a: { const: null } } }] }],
    ['an empty schema', {}],
  ])('expresses %s', (_, next) => {
    const { patch, problem } = changeOf({ output_schema: schema }, () => ({ output_schema: next }));
    expect(problem).toBe('');
    expect(isSame(apply({ output_schema: schema }, patch), { output_schema: next })).toBe(true);
  });

  it('touches only what changed', () => {
    expect(mergePatch({ a: { b: 1, c: 2 }, d: null }, { a: { b: 1, c: 3 }, d: null })).toEqual({ a: { c: 3 } });
  });

  it('removes the schema where the new value is null', () => {
    expect(changeOf({ output_schema: schema }, () => ({ output_schema: null }))).toEqual({ patch: { output_schema: null }, problem: '' });
    expect(changeOf({}, () => ({ output_schema: null }))).toEqual({ patch: {}, problem: '' });
  });

  it('refuses null values, which the server would drop', () => {
    for (const current of [{}, { output_schema: schema }, { output_schema: true }]) {
      const { problem } = changeOf(current, () => ({ output_schema: { ...schema, properties: { a: { default: null }, b: { const: null } } } }));
      expect(problem).toContain('null at $.output_schema.properties.a.default, $.output_schema.properties.b.const cannot be saved');
    }
    const unchanged = { output_schema: { properties: { a: { default: null } } } };
    expect(changeOf(unchanged, () => ({ output_schema: { properties: { a: { default: null }, b: {} } } }))).toEqual({ patch: { output_schema: { properties: { b: {} } } }, problem: '' });
  });

  it('refuses what is not a blueprint', () => {
    expect(changeOf({ a: 1 }, () => []).problem).toBe('an agent is a JSON object');
    expect(changeOf({ a: 1 }, () => null).problem).toBe('an agent is a JSON object');
    expect(changeOf({ a: 1 }, () => JSON.parse('{') as unknown).problem).toMatch(/^not JSON: /);
  });
});

describe('numbers beyond the precision of a double', () => {
  const schema = (text: string) => parseJson(`{"output_schema": {"const": ${text}}}`) as Record<string, unknown>;

  it('are compared and sent with all digits', () => {
    expect(changeOf(schema('9007199254740993'), () => schema('9007199254740993')).patch).toEqual({});
    expect(jsonLine(changeOf(schema('9007199254740992'), () => schema('9007199254740993')).patch)).toBe('{"output_schema":{"const":9007199254740993}}');
  });
});

describe('output schema of an agent', () => {
  it('is its own or a default one, in the blueprint or by name', () => {
    expect(outputSchema({ output_schema: false })).toEqual({ key: 'output_schema', name: null, isDefined: true });
    expect(outputSchema({ output_schema_name: 'a', output_schema: {} })).toEqual({ key: 'output_schema', name: 'a', isDefined: true });
    expect(outputSchema({ default_output_schema_name: 'b' })).toEqual({ key: 'default_output_schema', name: 'b', isDefined: true });
    expect(outputSchema({})).toEqual({ key: 'output_schema', name: null, isDefined: false });
    expect([{ output_schema_name: 'a' }, { default_output_schema: {} }, {}].map(isFixed)).toEqual([true, false, false]);
  });

  it('allows one retry if it is the own one, and two otherwise', () => {
    expect(retriesOf({ output_schema_name: 'a' })).toBe(1);
    expect(retriesOf({ default_output_schema: {} })).toBe(2);
    expect(retriesOf({ default_output_schema_name: 'a', default_output_schema_options: { max_retries: 0 } })).toBe(0);
  });
});
