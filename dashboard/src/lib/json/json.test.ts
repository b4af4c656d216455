import { describe, expect, it } from 'vitest';
import { jsonLines } from './lines';
import { locate } from './locate';
import { fromPointer, parsePath, schemaPointer, splitViolation, toPointer } from './pointer';
import { children, holds, preview, RANGE_SIZE } from './tree';

describe('tree', () => {
  it('lists the children of small containers', () => {
    expect(children({ 'a/b': 1, c: [2] }, '').map((node) => node.pointer)).toEqual(['/a~1b', '/c']);
  });

  it('slices long arrays into ranges that cover every item once', () => {
    const items = Array.from({ length: 30_000 }, (_, index) => index);
    const visit = (start: number, end: number): number => children(items, '', start, end).reduce((sum, node) => sum + (node.type === 'range' ? visit(node.start, node.end) : 1), 0);
    const top = children(items, '');
    expect(top.length).toBeLessThanOrEqual(RANGE_SIZE);
    expect(top[0]).toMatchObject({ type: 'range', key: '0 … 9999' });
    expect(visit(0, items.length)).toBe(30_000);
  });

  it('finds the range that holds a target', () => {
    const items = Array.from({ length: 250 }, (_, index) => ({ index }));
    expect([holds(items, '/a', '/a/120/index', [100, 200]), holds(items, '/a', '/a/120/index', [0, 100]), holds(items, '/a', '/a', [0, 100])]).toEqual([true, false, false]);
    expect([holds({ x: 1, 'y/z': 2 }, '', '/y~1z', [1, 2]), holds({ x: 1 }, '/a', '/ab', null), holds({ x: 1 }, '/a', '/a/x', null)]).toEqual([true, false, true]);
  });

  it('previews containers', () => {
    expect([preview([1]), preview({ a: 1, b: 2 })]).toEqual(['1 item', '2 properties']);
  });
});

describe('lines', () => {
  it('print like JSON.stringify', () => {
    const value = { a: [1, { b: null }], c: 'x', d: [], e: {} };
    const text = jsonLines(value, 100).lines.map((line) => `${'  '.repeat(line.depth)}${line.key === null ? '' : `${JSON.stringify(line.key)}: `}${line.text}${line.comma ? ',' : ''}`).join('\n');
    expect(text).toBe(JSON.stringify(value, null, 2));
  });

  it('stop at the limit and say so', () => {
    const { lines, more } = jsonLines(Array.from({ length: 50 }, () => 1), 10);
    expect([lines.length, more]).toEqual([10, true]);
  });

  it('go beyond the limit up to a target', () => {
    const list = Array.from({ length: 3_000 }, (_, index) => ({ index }));
    const { lines, more } = jsonLines(list, 10, '/2000/index');
    expect([lines.some((line) => line.pointer === '/2000/index'), lines.length < 6_100, more]).toEqual([true, true, true]);
    expect(jsonLines(list, 10, '/9999').lines.length).toBe(10);
    expect(jsonLines(list, 10, '/0').lines.length).toBe(10);
  });
});

describe('paths', () => {
  it('are parsed from violations', () => {
    expect(parsePath("$.items[0].severity: 'x' is not allowed")).toEqual(['items', 0, 'severity']);
    expect(parsePath("$['a b'].c")).toEqual(['a b', 'c']);
    expect(parsePath('$.größe.名前[2].x-1: bad')).toEqual(['größe', '名前', 2, 'x-1']);
    expect(parsePath(`$['it\\'s'].a['b\\n\\\\n\\u{7f}']: bad`)).toEqual(["it's", 'a', 'b\n\\n\u007f']);
    expect(splitViolation("$['a: b'].c: bad: x")).toEqual({ path: "$['a: b'].c", message: 'bad: x' });
    expect(parsePath('$: no JSON')).toEqual([]);
    expect(parsePath('no path')).toBeNull();
    expect(splitViolation('$.a: b: c')).toEqual({ path: '$.a', message: 'b: c' });
  });

  it('become pointers and back', () => {
    expect(toPointer(['a/b', 0, '~'])).toBe('/a~1b/0/~0');
    expect(fromPointer('/a~1b/0/~0')).toEqual(['a/b', '0', '~']);
  });

  it('find the subschema, through references and combinations', () => {
    const schema = {
      properties: { items: { type: 'array', items: { $ref: '#/definitions/item' } }, either: { anyOf: [{ type: 'string' }, { properties: { x: {} } }] } },
      definitions: { item: { properties: { severity: { enum: [] } } } },
    };
    expect(schemaPointer(schema, ['items', 3, 'severity'])).toBe('/definitions/item/properties/severity');
    expect(schemaPointer(schema, ['either', 'x'])).toBe('/properties/either/anyOf/1/properties/x');
    expect(schemaPointer(schema, ['unknown'])).toBe('');
    expect(schemaPointer({ $ref: '#' }, ['a'])).toBe('');
  });
});

describe('locate', () => {
  const at = (text: string, path: (string | number)[]) => {
    const found = locate(text, path);
    return found && text.slice(...found);
  };
  it('finds values in JSON', () => {
    expect(at('{"a": {"b": [1, "two"]}, "c": 3}', ['a', 'b', 1])).toBe('"two"');
    expect(at('{"a": 1, "b": {"a": 2}}', ['b', 'a'])).toBe('2');
  });

  it('finds keys that are written with escapes', () => {
    expect(at('{"caf\\u00e9": 1, "a\\"b": 2, "x\\ty": 3}', ['café'])).toBe('1');
    expect(at('{"caf\\u00e9": 1, "a\\"b": 2, "x\\ty": 3}', ['a"b'])).toBe('2');
    expect(at('{"caf\\u00e9": 1, "a\\"b": 2, "x\\ty": 3}', ['x\ty'])).toBe('3');
  });

  it('finds values in text that is not JSON yet', () => {
    expect(at("Sure: {name: 'Ada', // who\n \"role\": 'Admin',}", ['role'])).toBe("'Admin'");
    expect(at('{"a": "cut', ['a'])).toBe('"cut');
  });

  it('returns null for missing values and prose', () => {
    expect(at('{"a": 1}', ['b'])).toBeNull();
    expect(at('no json', ['a'])).toBeNull();
    expect(at('[[[[', [0, 0])).toBe('[[');
  });
});
