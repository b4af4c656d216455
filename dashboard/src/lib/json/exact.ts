/** A number that a double cannot hold, with its digits. */
export class ExactNumber {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  /** For code that does not use `jsonText`; the value is the nearest double. */
  toJSON(): number {
    return Number(this.text);
  }
}

/** Finds text that may hold such a number: sixteen digits, or an exponent. Matches in strings cost time only. */
const CANDIDATE = /[:,[\s]-?(?:[\d.]{16}|\d+(?:\.\d+)?[eE])/;
const SCALAR = /[^\s,\]}]+/y;

/** Parses JSON like `JSON.parse`, with the same errors, except that numbers keep their digits. */
export function parseJson(text: string): unknown {
  const parsed = JSON.parse(text) as unknown;
  return CANDIDATE.test(` ${text}`) ? new Parser(text).value() : parsed;
}

/** Whether a value is a JSON object. An exact number is an object of JavaScript only. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

const significant = (number: string) => number.replace(/[eE].*$|^-|\./g, '').replace(/^0+|0+$/g, '');

/** Parses what a number field holds, which may have zeros in front that JSON does not allow. */
export function parseNumber(text: string): number | ExactNumber {
  return numberOf(text.trim().replace(/^(-?)0+(?=\d)/, '$1').replace(/^(-?)\./, '$10.'));
}

function numberOf(text: string): number | ExactNumber {
  const value = Number(text);
  return Number.isFinite(value) && significant(text) === significant(String(value).replace('-', '')) ? value : new ExactNumber(text);
}

/** Returns the offset after the string that starts at `at`. Strings may have megabytes, so no pattern is matched. */
function stringEnd(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === '\\') escapes += 1;
    if (escapes % 2 === 0) return end + 1;
  }
  return text.length;
}

/** Reads text that is known to be JSON; mistakes in it are not diagnosed. */
class Parser {
  at = 0;

  constructor(private readonly text: string) {}

  value(): unknown {
    const open = this.next();
    if (open === '{') return Object.fromEntries(this.items('}', () => [this.key(), this.value()] as const));
    if (open === '[') return this.items(']', () => this.value());
    if (open === '"') return JSON.parse(this.take(stringEnd(this.text, this.at)));
    SCALAR.lastIndex = this.at;
    const word = SCALAR.exec(this.text)?.[0] ?? '';
    this.at += word.length;
    return /^[-\d]/.test(word) ? numberOf(word) : JSON.parse(word);
  }

  /** Reads a key and the colon after it. */
  key(): string {
    this.next();
    const key = JSON.parse(this.take(stringEnd(this.text, this.at))) as string;
    this.next();
    this.at += 1;
    return key;
  }

  /** Skips a value without building it. */
  skip(): void {
    let depth = 0;
    do {
      const mark = this.next();
      if (mark === '"') this.at = stringEnd(this.text, this.at);
      else if (mark === '{' || mark === '[') [depth, this.at] = [depth + 1, this.at + 1];
      else if (mark === '}' || mark === ']') [depth, this.at] = [depth - 1, this.at + 1];
      else if (mark === ',' || mark === ':') this.at += 1;
      else {
        SCALAR.lastIndex = this.at;
        this.at += (depth === 0 ? SCALAR.exec(this.text)?.[0].length : 1) ?? 1;
      }
    } while (depth > 0 && this.at < this.text.length);
  }

  /** Reads what stands between brackets and commas. */
  items<T>(close: string, read: () => T): T[] {
    const items: T[] = [];
    this.at += 1;
    while (this.next() !== close && this.at < this.text.length) {
      items.push(read());
      if (this.next() === ',') this.at += 1;
    }
    this.at += 1;
    return items;
  }

  /** Moves to the next character that is not white space. */
  next(): string {
    while (' \n\r\t'.includes(this.text[this.at] ?? 'x')) this.at += 1;
    return this.text[this.at] ?? '';
  }

  private take(end: number): string {
    const taken = this.text.slice(this.at, end);
    this.at = end;
    return taken;
  }
}

/** Returns the text of a member of an object exactly as it stands in the JSON; null without such a member. */
export function memberText(text: string, name: string): string | null {
  const parser = new Parser(text);
  if (parser.next() !== '{') return null;
  let found: string | null = null;
  parser.items('}', () => {
    const key = parser.key();
    parser.next();
    const start = parser.at;
    parser.skip();
    if (key === name) found = text.slice(start, parser.at);
  });
  return found;
}

/** Prints a value like `JSON.stringify(value, null, 2)`, with the digits of exact numbers. */
export function jsonText(value: unknown, indent = ''): string {
  if (value instanceof ExactNumber) return value.text;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const inside = `${indent}  `;
  const isArray = Array.isArray(value);
  const parts = isArray
    ? value.map((item) => inside + jsonText(item, inside))
    : Object.entries(value)
        .filter(([, item]) => item !== undefined)
        .map(([key, item]) => `${inside}${JSON.stringify(key)}: ${jsonText(item, inside)}`);
  const [open, close] = isArray ? ['[', ']'] : ['{', '}'];
  return parts.length === 0 ? open + close : `${open}\n${parts.join(',\n')}\n${indent}${close}`;
}

/** Prints a value on one line like `JSON.stringify(value)`, with the digits of exact numbers. */
export function jsonLine(value: unknown): string {
  if (value instanceof ExactNumber) return value.text;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(jsonLine).join(',')}]`;
  const members = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${members.map(([key, item]) => `${JSON.stringify(key)}:${jsonLine(item)}`).join(',')}}`;
}
