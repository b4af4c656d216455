import { counted } from '$lib/format/numbers';
import { ExactNumber } from './exact';
import { fromPointer } from './pointer';

export type Kind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

/** A child of a container, or a range of children that is opened on demand. */
export type Node =
  | { type: 'value'; key: string; pointer: string; value: unknown }
  | { type: 'range'; key: string; pointer: string; start: number; end: number };

/** Containers with more children are split into ranges of this size, so that opening one adds few elements. */
export const RANGE_SIZE = 100;

export function kindOf(value: unknown): Kind {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return 'array';
  if (value instanceof ExactNumber) return 'number';
  return typeof value as Kind;
}

export function size(value: unknown): number {
  if (Array.isArray(value)) return value.length;
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

function child(pointer: string, key: string, value: unknown): Node {
  return { type: 'value', key, pointer: `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, value };
}

/** Returns the children in `[start, end)`; long stretches become ranges whose size is a power of `RANGE_SIZE`. */
export function children(value: unknown, pointer: string, start = 0, end = size(value)): Node[] {
  if (typeof value !== 'object' || value === null) return [];
  const count = end - start;
  if (count > RANGE_SIZE) {
    let width = RANGE_SIZE;
    while (count > width * RANGE_SIZE) width *= RANGE_SIZE;
    const ranges: Node[] = [];
    for (let from = start; from < end; from += width) {
      const until = Math.min(from + width, end);
      ranges.push({ type: 'range', key: `${from} … ${until - 1}`, pointer: `${pointer}#${from}-${until}`, start: from, end: until });
    }
    return ranges;
  }
  if (Array.isArray(value)) return value.slice(start, end).map((item, index) => child(pointer, String(start + index), item));
  return Object.entries(value)
    .slice(start, end)
    .map(([key, item]) => child(pointer, key, item));
}

/** Returns whether a container, or a range of its children, holds the value at the pointer `target`. */
export function holds(value: unknown, pointer: string, target: string, range: [number, number] | null): boolean {
  if (!target.startsWith(`${pointer}/`)) return false;
  if (range === null) return true;
  const key = fromPointer(target.slice(pointer.length))[0] ?? '';
  const index = Array.isArray(value) ? Number(key) : Object.keys(value as object).indexOf(key);
  return index >= range[0] && index < range[1];
}

/** Returns a one-line description of a closed container. */
export function preview(value: unknown): string {
  const count = size(value);
  return Array.isArray(value) ? counted(count, 'item') : counted(count, 'property', 'properties');
}
