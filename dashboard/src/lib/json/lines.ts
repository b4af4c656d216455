import { toPointer, type Key } from './pointer';

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

/** Prints a value as lines, at most `max`; the second member says whether lines were left out. */
export function jsonLines(value: unknown, max: number): { lines: Line[]; more: boolean } {
  const lines: Line[] = [];
  let more = false;

  const print = (item: unknown, keys: Key[], key: string | null, comma: boolean): void => {
    if (lines.length >= max) {
      more = true;
      return;
    }
    const depth = keys.length;
    const pointer = toPointer(keys);
    if (typeof item !== 'object' || item === null) {
      const kind = typeof item === 'string' ? 'string' : typeof item === 'number' ? 'number' : 'literal';
      lines.push({ depth, pointer, key, text: JSON.stringify(item) ?? 'null', kind, comma });
      return;
    }
    const entries: [Key, unknown][] = Array.isArray(item) ? item.map((child, index) => [index, child]) : Object.entries(item);
    const [open, close] = OPEN_CLOSE[Array.isArray(item) ? 'array' : 'object'];
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
