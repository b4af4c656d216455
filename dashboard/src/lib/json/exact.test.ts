import { describe, expect, it } from 'vitest';
import { ExactNumber, isObject, jsonText, memberText, parseJson, parseNumber } from './exact';
import { jsonLines } from './lines';
import { kindOf } from './tree';

const DOCUMENT = '{"id": 9007199254740993, "text": "a\\"}, \\\\", "list": [1, -0.5, 1e400, 12.0, true, null], "__proto__": {"x": ""}}';

describe('exact JSON', () => {
  it('keeps the digits of numbers that a double cannot hold', () => {
    const value = parseJson(DOCUMENT) as { id: ExactNumber; list: unknown[] };
    expect(value.id.text).toBe('9007199254740993');
    expect(value.list.map(String)).toEqual(['1', '-0.5', '1e400', '12', 'true', 'null']);
    expect(parseJson('[0.1234567890123456789, 1234567890123456, 100000000000000000000, -9007199254740993]')).toEqual([new ExactNumber('0.1234567890123456789'), 1234567890123456, 1e20, new ExactNumber('-9007199254740993')]);
  });

  it('parses everything else like JSON.parse', () => {
    for (const text of [DOCUMENT.replace('9007199254740993', '7').replace('1e400', '1e3'), '[]', '{}', '"x"', ' [ {"a" : [ ] , "ä": "\\u00e9\\n"} ,\n-1.5e-3 ] ']) {
      expect(parseJson(text)).toEqual(JSON.parse(text));
    }
  });

  it('prints like JSON.stringify, with exact digits', () => {
    const value = { a: [1, { b: null }], c: 'x"', d: [], e: {} };
    expect(jsonText(value)).toBe(JSON.stringify(value, null, 2));
    expect(jsonText(parseJson('{"a":[9007199254740993]}'))).toBe('{\n  "a": [\n    9007199254740993\n  ]\n}');
    expect(jsonLines(parseJson('{"a": 9007199254740993}'), 10).lines[1]).toMatchObject({ text: '9007199254740993', kind: 'number' });
    expect(kindOf(new ExactNumber('9007199254740993'))).toBe('number');
  });
});

describe('text that people write', () => {
  it('is refused like by JSON.parse', () => {
    for (const text of ['', '{', '{"a": 9007199254740993', '[9007199254740993,]', '09007199254740993']) expect(() => parseJson(text)).toThrow(SyntaxError);
  });

  it('has numbers of which all digits count', () => {
    expect([parseNumber('9007199254740993'), parseNumber('007'), parseNumber('-.5'), parseNumber('0')].map((value) => jsonText(value))).toEqual(['9007199254740993', '7', '-0.5', '0']);
    expect([isObject(new ExactNumber('1e400')), isObject({}), isObject([]), isObject(null)]).toEqual([false, true, false, false]);
  });
});

describe('text of a member', () => {
  it('is returned exactly as the server wrote it', () => {
    const member = '{"a" :  [9007199254740993, 1.0, "\\u00e9]", {"result_data": 2}],"b":-0}';
    expect(memberText(`{"x": [1, {"result_data": 3}], "result_data": ${member}, "z": "}"}`, 'result_data')).toBe(member);
    for (const scalar of ['12.50', '"a\\\\\\""', 'null']) expect(memberText(`{"z":{},"result_data":${scalar}}`, 'result_data')).toBe(scalar);
    expect(memberText('{"z": 1}', 'result_data')).toBeNull();
    expect(memberText('[1]', 'result_data')).toBeNull();
  });

  it('is found after strings of megabytes', () => {
    expect(memberText(JSON.stringify({ long: '\\"'.repeat(3_000_000), result_data: 7 }), 'result_data')).toBe('7');
  });
});
