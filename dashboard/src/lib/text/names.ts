/** Shorter names are not split. */
const LENGTH_MIN = 24;
const END_LENGTH = 10;

/** Splits a long name into a part that may be cut and an end that stays visible. */
export function split(name: string): [start: string, end: string] {
  const characters = [...name];
  if (characters.length < LENGTH_MIN) return [name, ''];
  const at = characters.length - END_LENGTH;
  return [characters.slice(0, at).join(''), characters.slice(at).join('')];
}
