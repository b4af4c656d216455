type Json = unknown;
const isObject = (value: Json): value is Record<string, Json> => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the JSON Merge Patch (RFC 7396) that turns `from` into `to`. */
export function mergePatch(from: Record<string, Json>, to: Record<string, Json>): Record<string, Json> {
  const patch: Record<string, Json> = {};
  for (const key of Object.keys(from)) if (!(key in to)) patch[key] = null;
  for (const [key, value] of Object.entries(to)) {
    const before = from[key];
    if (isSame(before, value)) continue;
    patch[key] = isObject(before) && isObject(value) ? mergePatch(before, value) : value;
  }
  return patch;
}

/** Compares JSON values without regard to the order of keys. */
export function isSame(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, index) => isSame(item, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && isSame(a[key], b[key]));
}

const VIEW_MEMBERS = ['source', 'path', 'problems', 'warnings', 'created_at', 'modified_at'];

/** Returns the blueprint of an agent without the members that only views have. */
export function blueprintOf(agent: Record<string, Json>): Record<string, Json> {
  return Object.fromEntries(Object.entries(agent).filter(([key]) => !VIEW_MEMBERS.includes(key)));
}
