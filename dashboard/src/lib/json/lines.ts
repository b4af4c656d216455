import { jsonText } from './exact';
import { kindOf } from './tree';
import { at, toPointer, type Key } from './pointer';

/** One line of pretty-printed JSON, with the pointer of the value that it shows. */
export interface Line {
  depth: number;
  pointer: string;
  key: string | null;
  text: string;
  kind: 'open' | 'close' | 'string' | 'number' | 'literal';
  comma: boolean;
}

const OPEN_CLOSE = { array: ['[', ']'], object: ['{', '}'] } as const;

/** Lines that follow a target beyond the limit, so that it is not the last one. */
const AFTER_TARGET = 20;

/**
 * Prints a value as lines, at most `limit`, but as many as it takes to show the value at the pointer `target`; the second
 * member says whether lines were left out.
 */
export function jsonLines(value: unknown, limit: number, target: string | null = null): { lines: Line[]; more: boolean } {
  const lines: Line[] = [];
  let more = false;
  let max = target !== null && at(value, target) !== undefined ? Infinity : limit;

  const print = (item: unknown, keys: Key[], key: string | null, comma: boolean): void => {
    if (lines.length >= max) {
      more = true;
      return;
    }
    const depth = keys.length;
    const pointer = toPointer(keys);
    if (pointer === target) max = lines.length < limit ? limit : lines.length + AFTER_TARGET;
    const type = kindOf(item);
    if (type !== 'array' && type !== 'object') {
      lines.push({ depth, pointer, key, text: jsonText(item), kind: type === 'string' || type === 'number' ? type : 'literal', comma });
      return;
    }
    const entries: [Key, unknown][] = Array.isArray(item) ? item.map((child, index) => [index, child]) : Object.entries(item as object);
    const [open, close] = OPEN_CLOSE[type];
    if (entries.length === 0) {
      lines.push({ depth, pointer, key, text: open + close, kind: 'literal', comma });
      return;
    }
    lines.push({ depth, pointer, key, text: open, kind: 'open', comma: false });
    entries.forEach(([name, child], index) => {
      if (!more) print(child, [...keys, name], typeof name === 'string' ? name : null, index < entries.length - 1);
    });
    if (!more) lines.push({ depth, pointer, key: null, text: close, kind: 'close', comma });
  };

  print(value, [], null, false);
  return { lines, more };
}
