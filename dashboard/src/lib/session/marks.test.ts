import { beforeEach, describe, expect, it, vi } from 'vitest';
import { repairMarks, violationMarks } from './marks';

const passes = vi.hoisted(() => ({ count: 0 }));
vi.mock('$lib/text/spans', async (original) => {
  const spans = await original<typeof import('$lib/text/spans')>();
  const counted = <A extends unknown[], R>(scan: (...given: A) => R) => (...given: A) => ((passes.count += 1), scan(...given));
  return { ...spans, utf16Offsets: counted(spans.utf16Offsets), pointOffsets: counted(spans.pointOffsets) };
});
beforeEach(() => void (passes.count = 0));

describe('marks of a large reply', () => {
  const values = Array.from({ length: 1_000 }, (_, index) => `'${index}'`);
  const text = `[${values.join(',')},]`;
  const spanOf = (value: string): [number, number] => [text.indexOf(value), text.indexOf(value) + value.length];

  it('take one pass over the text for all repairs', () => {
    const repairs = values.map((value) => ({ kind: 'quotes_changed' as const, span: spanOf(value), pointer: '', from: null, to: null, lossless: true }));
    const all = { ...repairs[0], kind: 'comma_removed' as const, span: [0, text.length] as [number, number] };
    const marks = repairMarks(text, [...repairs, ...Array.from({ length: 1_000 }, () => all)] as never, null);
    expect(passes.count).toBe(1);
    expect(text.slice(marks[999]?.start, marks[999]?.end)).toBe("'999'");
    expect(marks.slice(1_000).every((mark) => mark.start === text.length - 2 && mark.end === text.length - 1)).toBe(true);
  });

  it('take one pass over the text for the places of all violations', () => {
    const marks = violationMarks(text, values.slice(0, 20).map((_, index) => `$[${index}]: bad`), null);
    expect(passes.count).toBe(1);
    expect(marks.map((mark) => text.slice(mark.start, mark.end))).toEqual(values.slice(0, 20));
  });
});
