import { ExactNumber, isObject } from '$lib/json/exact';

type Json = unknown;
type Members = Record<string, Json>;

const memberOf = (object: Members, key: string): Json => (Object.hasOwn(object, key) ? object[key] : undefined);

/** Returns the JSON Merge Patch (RFC 7396) that turns `current` into `next`, except for what `lostNulls` returns. */
export function mergePatch(current: Members, next: Members): Members {
  const changes: [string, Json][] = Object.keys(current).filter((key) => !Object.hasOwn(next, key)).map((key) => [key, null]);
  for (const [key, value] of Object.entries(next)) {
    const before = memberOf(current, key);
    if (!isSame(before, value)) changes.push([key, isObject(value) ? mergePatch(isObject(before) ? before : {}, value) : value]);
  }
  // Unlike an assignment, `fromEntries` keeps a member with the name `__proto__`.
  return Object.fromEntries(changes);
}

/** Returns the paths of new members whose value is null. A merge patch cannot set them, because null removes a member there. */
export function lostNulls(current: Json, next: Json, path = '$'): string[] {
  if (isSame(current, next)) return [];
  if (next === null) return [path];
  if (!isObject(next)) return [];
  const before = isObject(current) ? current : {};
  return Object.entries(next).flatMap(([key, value]) => lostNulls(memberOf(before, key), value, `${path}.${key}`));
}

/** Compares JSON values without regard to the order of keys. */
export function isSame(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (a instanceof ExactNumber || b instanceof ExactNumber) return a instanceof ExactNumber && b instanceof ExactNumber && a.text === b.text;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, index) => isSame(item, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && isSame(a[key], b[key]));
}

/** A change of an agent as its editors send it. */
export interface Change {
  patch: Members;
  /** Why the change cannot be sent; empty if it can. */
  problem: string;
}

/** Returns the change from a blueprint to the one that `parse` reads, where a key with the value null is an absent one. */
export function changeOf(current: Members, parse: () => Json): Change {
  let next: Json;
  try {
    next = parse();
  } catch (error) {
    return { patch: {}, problem: `not JSON: ${error instanceof Error ? error.message : ''}` };
  }
  if (!isObject(next)) return { patch: {}, problem: 'an agent is a JSON object' };
  const wanted = Object.fromEntries(Object.entries(next).filter(([, value]) => value !== null));
  const lost = lostNulls(current, wanted);
  if (lost.length === 0) return { patch: mergePatch(current, wanted), problem: '' };
  return { patch: {}, problem: `the value null at ${lost.join(', ')} cannot be saved here, because null removes a member from a saved agent; leave the member out, write "const": null as "enum": [null], or define the agent in a file` };
}

const VIEW_MEMBERS = ['source', 'path', 'problems', 'warnings', 'created_at', 'modified_at'];

/** Returns the blueprint of an agent without the members that only views have. */
export function blueprintOf(agent: Members): Members {
  return Object.fromEntries(Object.entries(agent).filter(([key]) => !VIEW_MEMBERS.includes(key)));
}
