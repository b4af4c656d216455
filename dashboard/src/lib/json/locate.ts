import type { Key } from './pointer';

/**
 * Finds the place of a value in JSON-like text. The scanner tolerates single quotes, keys without quotes, comments
 * and stray commas, because violations have to be shown in replies that are not JSON yet.
 */
export function locate(text: string, path: Key[], from = 0, to = text.length): [number, number] | null {
  const scanner = new Scanner(text, from, to);
  const start = scanner.findDocument();
  if (start === null) return null;
  return scanner.value(path);
}

const CLOSING: Record<string, string> = { '"': '"', "'": "'", '`': '`', '“': '”', '‘': '’' };
const DEPTH_MAX = 500;

const ESCAPES: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** Returns a key as JSON means it. Other escapes mean the character itself. */
function unescapeKey(key: string): string {
  if (!key.includes('\\')) return key;
  return key.replace(/\\(?:u([0-9a-fA-F]{4})|(.))/gs, (_, code: string | undefined, character: string) => (code ? String.fromCharCode(parseInt(code, 16)) : (ESCAPES[character] ?? character)));
}

class Scanner {
  private at: number;

  constructor(
    private readonly text: string,
    from: number,
    private readonly to: number,
  ) {
    this.at = from;
  }

  findDocument(): number | null {
    while (this.at < this.to && !'{['.includes(this.text[this.at] ?? '')) this.at += 1;
    return this.at < this.to ? this.at : null;
  }

  /** Consumes one value and returns the place of the value at `path` inside it; an empty path means the value itself. */
  value(path: Key[] | null, depth = 0): [number, number] | null {
    this.skip();
    const start = this.at;
    const open = this.text[start] ?? '';
    if (depth > DEPTH_MAX) return null;
    let found: [number, number] | null = null;
    if (open === '{') found = this.members('}', path, depth);
    else if (open === '[' || open === '(') found = this.members(open === '[' ? ']' : ')', path, depth);
    else if (open in CLOSING) this.string();
    else this.bare();
    return path?.length === 0 ? [start, this.at] : found;
  }

  private members(close: string, path: Key[] | null, depth: number): [number, number] | null {
    let found: [number, number] | null = null;
    let index = 0;
    this.at += 1;
    for (;;) {
      this.skip();
      const next = this.text[this.at];
      if (this.at >= this.to || next === undefined) return found;
      if ('}])'.includes(next)) {
        this.at += 1;
        return found;
      }
      const before = this.at;
      const key = close === '}' ? this.key() : index;
      index += 1;
      const wanted = path !== null && path.length > 0 && String(path[0]) === String(key) ? path.slice(1) : null;
      found = this.value(wanted, depth + 1) ?? found;
      if (this.at === before) this.at += 1;
    }
  }

  private key(): string {
    const start = this.at;
    const quoted = (this.text[start] ?? '') in CLOSING;
    if (quoted) this.string();
    else while (this.at < this.to && !/[\s:=,}\]]/.test(this.text[this.at] ?? '')) this.at += 1;
    const key = quoted ? unescapeKey(this.text.slice(start + 1, this.at - 1)) : this.text.slice(start, this.at);
    this.skip();
    if (/[:=]/.test(this.text[this.at] ?? '')) this.at += 1;
    return key;
  }

  private string(): void {
    const close = CLOSING[this.text[this.at] ?? ''] ?? '"';
    this.at += 1;
    while (this.at < this.to && this.text[this.at] !== close) this.at += this.text[this.at] === '\\' ? 2 : 1;
    this.at = Math.min(this.at + 1, this.to);
  }

  private bare(): void {
    while (this.at < this.to && !/[\s,}\])]/.test(this.text[this.at] ?? '')) this.at += 1;
  }

  private skip(): void {
    for (;;) {
      const rest = this.text.slice(this.at, this.at + 2);
      if (/^[\s,]/.test(rest) && this.at < this.to) this.at += 1;
      else if (rest === '//') this.until('\n');
      else if (rest === '/*') this.until('*/');
      else return;
    }
  }

  private until(mark: string): void {
    const end = this.text.indexOf(mark, this.at);
    this.at = end < 0 ? this.to : Math.min(end + mark.length, this.to);
  }
}
