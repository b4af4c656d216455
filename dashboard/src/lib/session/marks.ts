import type { TextMark } from '$components/MarkedText.svelte';
import type { Call, Repair } from '$lib/api/types';
import { locate } from '$lib/json/locate';
import { parsePath, toPointer } from '$lib/json/pointer';
import { codePoints, pointOffsets, utf16Offsets } from '$lib/text/spans';
import { describeRepair } from './repairs';

/** Repairs that keep the document and leave out the text around it. */
const AROUND = ['text_removed', 'document_chosen'];
/** Repairs of one place in a container, for which the server may give the span of the whole container. */
const BETWEEN = (
  'comma_added comma_removed colon_added space_removed ellipsis_removed text_dropped bracket_changed comment_removed quotes_changed ' +
  'key_quoted control_escaped quote_escaped escape_changed strings_joined literal_changed number_changed repeat_removed duplicate_removed'
).split(' ');
const QUOTED_KEY = /['`‘“][^'`’”\n]*['`’”](?=\s*:)/;
const TRAILING_COMMA = /,(?=(?:\s|\/\/[^\n]*(?:\n|$)|\/\*[^]*?\*\/)*[}\]]$)/;
/** Characters before the end of a container in which its trailing comma is searched for; containers may have megabytes. */
const TRAILING_MAX = 2_000;

function leftOut(text: string, id: string, kept: [number, number], title: string): TextMark[] {
  const total = codePoints(text);
  const ranges: [number, number][] = [[0, kept[0]], [kept[1], total]];
  return ranges.filter(([start, end]) => end > start).map(([start, end]) => ({ id, start, end, tone: 'removed' as const, title }));
}

/** Narrows the span of a container to its trailing comma or quoted key, or to its brackets. `inside` is the text of the span. */
function narrow(inside: string, kind: Repair['kind'], [start, end]: [number, number]): [number, number][] {
  if (!BETWEEN.includes(kind) || !/^[{[]/.test(inside)) return [[start, end]];
  const from = kind === 'comma_removed' ? Math.max(0, inside.length - TRAILING_MAX) : 0;
  const pattern = kind === 'comma_removed' ? TRAILING_COMMA : kind === 'quotes_changed' ? QUOTED_KEY : null;
  const found = pattern?.exec(inside.slice(from));
  if (!found) return [[start, start + 1], [end - 1, end]];
  const at = start + codePoints(inside.slice(0, from + found.index));
  return [[at, at + codePoints(found[0])]];
}

/** Returns marks for repairs that have a place in the text. */
export function repairMarks(text: string, repairs: Repair[], document: [number, number] | null): TextMark[] {
  // One pass over the text for all spans, and one search for all repairs of a container: a reply may have megabytes.
  const offsets = utf16Offsets(text, repairs.flatMap((repair) => repair.span ?? []));
  const narrowed = new Map<string, [number, number][]>();
  const rangesOf = (kind: Repair['kind'], span: [number, number]) => {
    const key = `${kind} ${span.join()}`;
    const ranges = narrowed.get(key) ?? narrow(text.slice(offsets.get(span[0]), offsets.get(span[1])), kind, span);
    narrowed.set(key, ranges);
    return ranges;
  };
  return repairs.flatMap((repair, index): TextMark[] => {
    const id = `repair-${index}`;
    const title = describeRepair(repair);
    if (AROUND.includes(repair.kind)) return document ? leftOut(text, id, document, title) : [];
    if (!repair.span) return [];
    const tone = repair.lossless ? ('lossless' as const) : ('lossy' as const);
    return rangesOf(repair.kind, repair.span).map(([start, end]) => ({ id, start, end, tone, title }));
  });
}

/** Returns the place of the whole value: its opening bracket, so that marks inside it stay visible, or a scalar document. */
function rootPlace(text: string, document: [number, number] | null): [number, number] | null {
  const found = locate(text, [], ...(document ?? []));
  return found ? [found[0], found[0] + 1] : document;
}

/** Returns marks for violations whose value can be found in the text. */
export function violationMarks(text: string, violations: string[], document: [number, number] | null): TextMark[] {
  const offsets = document ? utf16Offsets(text, document) : null;
  const units: [number, number] | null = document && offsets ? [offsets.get(document[0]) ?? 0, offsets.get(document[1]) ?? text.length] : null;
  const found = violations.flatMap((title, index) => {
    const path = parsePath(title);
    if (!path) return [];
    const place = path.length === 0 ? rootPlace(text, units) : locate(text, path, ...(units ?? []));
    return place ? [{ id: `violation-${index}`, place, title }] : [];
  });
  const points = pointOffsets(text, found.flatMap(({ place }) => place));
  const point = (unit: number) => points.get(unit) ?? 0;
  return found.map(({ id, place: [start, end], title }) => ({ id, start: point(start), end: point(end), tone: 'bad' as const, title }));
}

export function textMarks(text: string, call: Call): TextMark[] {
  return [...repairMarks(text, call.extraction?.repairs ?? [], call.extraction?.document ?? null), ...violationMarks(text, call.violations, call.extraction?.document ?? null)];
}

export type ValueMark = { tone: 'lossless' | 'lossy' | 'bad'; title: string };

/** Returns marks by pointer for the extracted value; a violation takes precedence over repairs. */
export function valueMarks(repairs: Repair[], violations: string[]): Map<string, ValueMark> {
  const marks = new Map<string, ValueMark>();
  for (const repair of repairs) {
    if (repair.pointer === '') continue;
    const tone = repair.lossless ? 'lossless' : 'lossy';
    if (marks.get(repair.pointer)?.tone !== 'lossy') marks.set(repair.pointer, { tone, title: describeRepair(repair) });
  }
  for (const violation of violations) {
    const path = parsePath(violation);
    if (path) marks.set(toPointer(path), { tone: 'bad', title: violation });
  }
  return marks;
}

export function resultMarks(call: Call): Map<string, ValueMark> {
  return valueMarks(call.extraction?.repairs ?? [], call.violations);
}
