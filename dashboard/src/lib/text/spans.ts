/** A range in a text; offsets count Unicode code points. `start === end` marks an insertion. */
export interface Span {
  id: string;
  start: number;
  end: number;
}

/** A stretch of text with the ids of all spans that cover it; empty text marks an insertion point. */
export interface Segment {
  text: string;
  ids: string[];
}

/** Maps code point offsets to UTF-16 offsets in one pass. Offsets beyond the end map to the end. */
export function utf16Offsets(text: string, points: number[]): Map<number, number> {
  const wanted = [...new Set(points)].sort((a, b) => a - b);
  const offsets = new Map<number, number>();
  let unit = 0;
  let point = 0;
  for (const target of wanted) {
    while (point < target && unit < text.length) {
      unit += (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1;
      point += 1;
    }
    offsets.set(target, unit);
  }
  return offsets;
}

function covering(spans: Span[], start: number, end: number): string[] {
  return spans.filter((span) => span.start <= start && span.end >= end && span.start < span.end).map((span) => span.id);
}

/**
 * Splits a text at the borders of all spans. Overlapping spans share segments; a zero-width span becomes a segment
 * without text at its place, before the text that follows.
 */
export function segments(text: string, spans: Span[]): Segment[] {
  const ordered = spans.filter((span) => span.end >= span.start && span.start >= 0);
  const offsets = utf16Offsets(text, [0, Number.MAX_SAFE_INTEGER, ...ordered.flatMap((span) => [span.start, span.end])]);
  const total = codePoints(text);
  const borders = [...new Set([0, total, ...ordered.flatMap((span) => [Math.min(span.start, total), Math.min(span.end, total)])])];
  borders.sort((a, b) => a - b);

  const result: Segment[] = [];
  borders.forEach((border, index) => {
    for (const span of ordered) {
      if (span.start === span.end && Math.min(span.start, total) === border) result.push({ text: '', ids: [span.id] });
    }
    const next = borders[index + 1];
    if (next === undefined) return;
    const piece = text.slice(offsets.get(border) ?? text.length, offsets.get(next) ?? text.length);
    result.push({ text: piece, ids: covering(ordered, border, next) });
  });
  return result;
}

export function codePoints(text: string): number {
  let count = 0;
  for (let unit = 0; unit < text.length; unit += (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1) count += 1;
  return count;
}

/** Returns the code point offset of a UTF-16 offset. */
export function pointOffset(text: string, unit: number): number {
  return codePoints(text.slice(0, unit));
}
