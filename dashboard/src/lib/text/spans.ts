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

/**
 * Splits a text at the borders of all spans. Overlapping spans share segments; a zero-width span becomes a segment
 * without text at its place, before the text that follows.
 */
export function segments(text: string, spans: Span[]): Segment[] {
  const total = codePoints(text);
  const ordered = spans.filter((span) => span.end >= span.start && span.start >= 0).map(({ id, start, end }) => ({ id, start: Math.min(start, total), end: Math.min(end, total) }));
  ordered.sort((a, b) => a.start - b.start);
  const borders = [...new Set([0, total, ...ordered.flatMap((span) => [span.start, span.end])])].sort((a, b) => a - b);
  const offsets = utf16Offsets(text, borders);
  let from = 0;
  let open: typeof ordered = [];

  const result: Segment[] = [];
  borders.forEach((border, index) => {
    open = open.filter((span) => span.end > border);
    for (let span = ordered[from]; span?.start === border; span = ordered[(from += 1)]) {
      if (span.end === border) result.push({ text: '', ids: [span.id] });
      else open.push(span);
    }
    const next = borders[index + 1];
    if (next === undefined) return;
    result.push({ text: text.slice(offsets.get(border), offsets.get(next)), ids: open.map((span) => span.id) });
  });
  return result;
}

export function codePoints(text: string): number {
  let count = 0;
  for (let unit = 0; unit < text.length; unit += (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1) count += 1;
  return count;
}

/** Maps UTF-16 offsets to code point offsets in one pass. Offsets beyond the end map to the end. */
export function pointOffsets(text: string, units: number[]): Map<number, number> {
  const wanted = [...new Set(units)].sort((a, b) => a - b);
  const offsets = new Map<number, number>();
  let unit = 0;
  let point = 0;
  for (const target of wanted) {
    while (unit < target && unit < text.length) {
      unit += (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1;
      point += 1;
    }
    offsets.set(target, point);
  }
  return offsets;
}
