import { isObject } from './exact';

export type Key = string | number;

/** Keys that the server writes without quotes: those of `is_plain` in `crates/schema/src/path.rs`. */
const PLAIN_KEY = /^[\p{Alphabetic}_$][\p{Alphabetic}\p{N}_-]*/u;
const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t' };

function unescape(key: string): string {
  return key.replace(/\\(?:u\{([0-9a-f]+)\}|(.))/gs, (_, code: string | undefined, character: string) => (code ? String.fromCodePoint(parseInt(code, 16)) : (ESCAPES[character] ?? character)));
}

/** Parses the path at the start of a violation, such as `$.items[0].severity: …`. */
export function parsePath(violation: string): Key[] | null {
  return violation.startsWith('$') ? readPath(violation.slice(1)).keys : null;
}

function readPath(text: string): { keys: Key[]; rest: string } {
  const keys: Key[] = [];
  let rest = text;
  for (;;) {
    const index = /^\[(\d+|\*)\]/.exec(rest);
    const quoted = /^\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]/.exec(rest);
    const dotted = rest.startsWith('.') ? PLAIN_KEY.exec(rest.slice(1)) : null;
    if (index) {
      keys.push(index[1] === '*' ? '*' : Number(index[1]));
      rest = rest.slice(index[0].length);
    } else if (quoted) {
      keys.push(unescape(quoted[1] ?? quoted[2] ?? ''));
      rest = rest.slice(quoted[0].length);
    } else if (dotted) {
      keys.push(dotted[0]);
      rest = rest.slice(1 + dotted[0].length);
    } else {
      return { keys, rest };
    }
  }
}

/** Splits a violation into its path and its message. */
export function splitViolation(violation: string): { path: string; message: string } {
  const { rest } = readPath(violation.slice(1));
  // A quoted key may contain the separator too.
  const at = violation.indexOf(': ', violation.length - rest.length);
  if (!violation.startsWith('$') || at < 0) return { path: '', message: violation };
  return { path: violation.slice(0, at), message: violation.slice(at + 2) };
}

export function toPointer(keys: Key[]): string {
  return keys.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

export function fromPointer(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

type Schema = Record<string, unknown>;
const isSchema = isObject as (value: unknown) => value is Schema;

/** Returns the value at a pointer; undefined if there is none. */
export function at(root: unknown, pointer: string): unknown {
  return fromPointer(pointer).reduce<unknown>((value, key) => (isSchema(value) && Object.hasOwn(value, key) ? value[key] : Array.isArray(value) ? value[Number(key)] : undefined), root);
}

function follow(root: unknown, place: string): string {
  let pointer = place;
  for (let hops = 0; hops < 20; hops += 1) {
    const schema = at(root, pointer);
    const reference = isSchema(schema) ? schema.$ref : undefined;
    if (typeof reference !== 'string' || !reference.startsWith('#')) return pointer;
    pointer = decodeURIComponent(reference.slice(1));
  }
  return pointer;
}

function step(root: unknown, place: string, key: Key): string | null {
  const schema = at(root, place);
  if (!isSchema(schema)) return null;
  const inside = (name: string) => `${place}${toPointer([name])}`;
  if (isSchema(schema.properties) && String(key) in schema.properties) return inside('properties') + toPointer([key]);
  if (typeof key === 'number' && Array.isArray(schema.prefixItems) && key < schema.prefixItems.length) return inside('prefixItems') + toPointer([key]);
  if ((typeof key === 'number' || key === '*') && isSchema(schema.items)) return inside('items');
  for (const combined of ['allOf', 'anyOf', 'oneOf']) {
    const branches = schema[combined];
    for (let branch = 0; Array.isArray(branches) && branch < branches.length; branch += 1) {
      const found = step(root, follow(root, inside(combined) + toPointer([branch])), key);
      if (found !== null) return found;
    }
  }
  if (isSchema(schema.additionalProperties)) return inside('additionalProperties');
  return null;
}

/** Returns the pointer of the subschema that describes an instance path; the deepest known ancestor otherwise. */
export function schemaPointer(schema: unknown, path: Key[]): string {
  let place = follow(schema, '');
  for (const key of path) {
    const next = step(schema, place, key);
    if (next === null) return place;
    place = follow(schema, next);
  }
  return place;
}
