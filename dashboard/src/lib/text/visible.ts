/** A piece of text to render: ordinary text, or one character that must not act on the page. */
export type Piece = { text: string } | { code: string; name: string };

const NAMES: Record<number, string> = {
  0x00ad: 'soft hyphen',
  0x061c: 'Arabic letter mark',
  0x200b: 'zero width space',
  0x200c: 'zero width non-joiner',
  0x200d: 'zero width joiner',
  0x200e: 'left-to-right mark',
  0x200f: 'right-to-left mark',
  0x2028: 'line separator',
  0x2029: 'paragraph separator',
  0x202a: 'left-to-right embedding',
  0x202b: 'right-to-left embedding',
  0x202c: 'pop directional formatting',
  0x202d: 'left-to-right override',
  0x202e: 'right-to-left override',
  0x2066: 'left-to-right isolate',
  0x2067: 'right-to-left isolate',
  0x2068: 'first strong isolate',
  0x2069: 'pop directional isolate',
  0xfeff: 'byte order mark',
};

// C0 (without tab and line feed), C1, format characters, line separators, tags and lone surrogates.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}\p{Surrogate}]/gu;
const EMOJI_BEFORE = /[\p{Extended_Pictographic}\p{Emoji_Presentation}\p{Emoji_Modifier}\ufe0f]$/u;
const EMOJI_AFTER = /^[\p{Extended_Pictographic}\p{Emoji_Presentation}]/u;

function joinsEmoji(text: string, at: number): boolean {
  return EMOJI_BEFORE.test(text.slice(Math.max(0, at - 2), at)) && EMOJI_AFTER.test(text.slice(at + 1, at + 3));
}

function describe(code: number): { code: string; name: string } {
  const hex = code.toString(16).toUpperCase().padStart(4, '0');
  const name = NAMES[code] ?? (code < 0x20 || (code >= 0x7f && code <= 0x9f) ? 'control character' : 'invisible character');
  return { code: `U+${hex}`, name };
}

/** Splits text so that bidi controls and invisible characters can be shown instead of taking effect. */
export function visible(text: string): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const code = match[0].codePointAt(0) ?? 0;
    if (code === 0x200d && joinsEmoji(text, match.index)) continue;
    if (match.index > from) pieces.push({ text: text.slice(from, match.index) });
    pieces.push(describe(code));
    from = match.index + match[0].length;
  }
  if (from < text.length || pieces.length === 0) pieces.push({ text: text.slice(from) });
  return pieces;
}

// The blocks whose characters are written from right to left, assigned or not.
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Says whether a text has letters that could reorder the text beside it. */
export function hasRightToLeft(text: string): boolean {
  return RIGHT_TO_LEFT.test(text);
}

/** Text to render in one element: ordinary text, or hidden characters that stand side by side, with their names. */
export interface Stretch {
  text: string;
  names: string[] | null;
}

/** Splits text for display into at most `limit` stretches of hidden characters; later ones are written in the text. */
export function stretches(text: string, limit: number): Stretch[] {
  const result: Stretch[] = [];
  let marked = 0;
  for (const piece of visible(text)) {
    const name = 'code' in piece ? piece.name : null;
    const written = 'code' in piece ? `⟦${piece.code}⟧` : piece.text;
    const last = result.at(-1);
    if (name !== null && last?.names) {
      last.text += written;
      if (!last.names.includes(name)) last.names.push(name);
    } else if (name !== null && marked < limit) {
      marked += 1;
      result.push({ text: written, names: [name] });
    } else if (last && last.names === null) last.text += written;
    else result.push({ text: written, names: null });
  }
  return result;
}

/** Shares the highlighted stretches of a page among its texts: the first ones that need them get them. */
export function shareMarks(texts: string[], limit: number): number[] {
  let rest = limit;
  return texts.map((text) => {
    const own = rest > 0 ? stretches(text, rest).filter((stretch) => stretch.names).length : 0;
    rest -= own;
    return own;
  });
}

/** Returns the text with hidden characters written as `⟦U+202E⟧`, for attributes and titles. */
export function visibleText(text: string): string {
  return visible(text)
    .map((piece) => ('text' in piece ? piece.text : `⟦${piece.code}⟧`))
    .join('');
}

/** Cuts at a code point boundary, so that no half of a surrogate pair remains. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}
