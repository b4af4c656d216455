import { expect, it } from 'vitest';
import { parseJson } from '$lib/json/exact';
import { checkLine } from './case';

it('a test case is one line with the members that `slipform check --jsonl` takes', () => {
  const schema = { type: 'object', required: ['a'] };
  const line = checkLine('run_1', 'Sure:\n{"a": 1}\u2028', schema);
  expect(line.split('\n')).toHaveLength(2);
  expect(JSON.parse(line)).toEqual({ id: 'run_1', text: 'Sure:\n{"a": 1}\u2028', schema });
});

it('a test case keeps the digits of large integers, and has no member for a missing schema', () => {
  const schema = '{"type":"integer","enum":[9007199254740993,[],{"a":null}]}';
  expect(checkLine('run_1', '{}', parseJson(schema))).toBe(`{"id":"run_1","text":"{}","schema":${schema}}\n`);
  expect(checkLine('run_1', '{}', undefined)).toBe('{"id":"run_1","text":"{}"}\n');
});
