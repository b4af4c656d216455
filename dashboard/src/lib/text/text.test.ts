import { describe, expect, it } from 'vitest';
import { split } from './names';
import { codePoints, pointOffsets, segments, utf16Offsets } from './spans';
import { cut, hasRightToLeft, shareMarks, stretches, visible, visibleText } from './visible';

const marked = (text: string, spans: [string, number, number][]) =>
  segments(text, spans.map(([id, start, end]) => ({ id, start, end }))).map((segment) => `${segment.text}${segment.ids.length > 0 ? `<${segment.ids.join()}>` : ''}`);

describe('segments', () => {
  it('returns the text as one segment without spans', () => {
    expect(segments('abc', [])).toEqual([{ text: 'abc', ids: [] }]);
  });

  it('splits at the borders of a span', () => {
    expect(marked('abcdef', [['a', 2, 4]])).toEqual(['ab', 'cd<a>', 'ef']);
  });

  it('gives overlapping spans a shared segment', () => {
    expect(marked('abcdef', [['a', 1, 4], ['b', 3, 5]])).toEqual(['a', 'bc<a>', 'd<a,b>', 'e<b>', 'f']);
  });

  it('gives nested spans both ids inside', () => {
    expect(marked('abcdef', [['a', 0, 6], ['b', 2, 3]])).toEqual(['ab<a>', 'c<a,b>', 'def<a>']);
  });

  it('shows a zero-width span as an empty segment', () => {
    expect(marked('ab', [['a', 1, 1]])).toEqual(['a', '<a>', 'b']);
    expect(marked('ab', [['a', 0, 0], ['b', 2, 2]])).toEqual(['<a>', 'ab', '<b>']);
  });

  it('places a zero-width span inside another span', () => {
    expect(marked('abcd', [['a', 0, 4], ['b', 2, 2]])).toEqual(['ab<a>', '<b>', 'cd<a>']);
  });

  it('counts astral characters as one', () => {
    expect(marked('👩x𝔘y', [['a', 0, 1], ['b', 2, 3]])).toEqual(['👩<a>', 'x', '𝔘<b>', 'y']);
  });

  it('clamps spans beyond the end', () => {
    expect(marked('ab', [['a', 1, 99], ['b', 50, 50]])).toEqual(['a', 'b<a>', '<b>']);
  });

  it('ignores spans that end before they start', () => {
    expect(marked('ab', [['a', 2, 1]])).toEqual(['ab']);
  });

  it('never loses or repeats text', () => {
    const text = 'x👩‍🚀y{"a": 1}𝔘';
    const spans = [...Array(40).keys()].map((index) => ({ id: String(index), start: index % 7, end: (index * 5) % 16 }));
    expect(segments(text, spans).map((segment) => segment.text).join('')).toBe(text);
  });
});

describe('offsets', () => {
  it('maps code points to UTF-16 units and back', () => {
    expect(utf16Offsets('a👩b', [0, 1, 2, 3, 9])).toEqual(new Map([[0, 0], [1, 1], [2, 3], [3, 4], [9, 4]]));
    expect(codePoints('a👩b')).toBe(3);
    expect(pointOffsets('a👩b', [4, 3, 0, 9])).toEqual(new Map([[0, 0], [3, 2], [4, 3], [9, 3]]));
  });
});

describe('stretches', () => {
  it('join hidden characters that stand side by side', () => {
    expect(stretches('a\u0001\u0002\u202Eb', 10)).toEqual([
      { text: 'a', names: null },
      { text: '⟦U+0001⟧⟦U+0002⟧⟦U+202E⟧', names: ['control character', 'right-to-left override'] },
      { text: 'b', names: null },
    ]);
    expect(stretches('', 10)).toEqual([{ text: '', names: null }]);
  });

  it('write hidden characters beyond the limit in the text', () => {
    expect(stretches('\u0001a\u0002b\u0003\u0004', 1)).toEqual([
      { text: '⟦U+0001⟧', names: ['control character'] },
      { text: 'a⟦U+0002⟧b⟦U+0003⟧⟦U+0004⟧', names: null },
    ]);
    expect(stretches('\u0001', 0)).toEqual([{ text: '⟦U+0001⟧', names: null }]);
  });
});

describe('right-to-left letters', () => {
  it('are found in every script, unlike marks that are shown', () => {
    for (const text of ['a\u05d0', '\u0627', '\u0661', '\u{1e900}', '\ufb1d']) expect(hasRightToLeft(text)).toBe(true);
    for (const text of ['', 'größe ⟦⟧ 👩', '\u202e\u2067\ufeff', '漢字']) expect(hasRightToLeft(text)).toBe(false);
  });
});

describe('shareMarks', () => {
  it('gives the first texts what they need', () => {
    expect(shareMarks(['a', '\u0001a\u0002', 'b', '\u0003', '\u0001a\u0002', '\u0004'], 4)).toEqual([0, 2, 0, 1, 1, 0]);
  });
});

describe('visible', () => {
  it('marks bidi controls', () => {
    expect(visibleText('user\u202Enimda\u202C')).toBe('user⟦U+202E⟧nimda⟦U+202C⟧');
    expect(visible('\u2066a')[0]).toEqual({ code: 'U+2066', name: 'left-to-right isolate' });
  });

  it('marks control, zero width and tag characters', () => {
    expect(visibleText('a\u0000\u001b[31m\u200B\uFEFF\u{E0041}')).toBe('a⟦U+0000⟧⟦U+001B⟧[31m⟦U+200B⟧⟦U+FEFF⟧⟦U+E0041⟧');
  });

  it('keeps tabs, line feeds and emoji sequences', () => {
    expect(visibleText('a\tb\n👩\u200D🚀')).toBe('a\tb\n👩\u200D🚀');
    expect(visibleText('a\u200Db')).toBe('a⟦U+200D⟧b');
  });

  it('marks lone surrogates', () => {
    expect(visibleText('a\uD800b')).toBe('a⟦U+D800⟧b');
  });

  it('returns markup unchanged, as text', () => {
    expect(visible('<script>')).toEqual([{ text: '<script>' }]);
  });

  it('cuts between code points', () => {
    expect(cut('a👩b', 2)).toBe('a');
    expect(cut('abc', 3)).toBe('abc');
  });
});

describe('long names', () => {
  it('keep their ends, in which they differ', () => {
    expect(split('triage')).toEqual(['triage', '']);
    const [start, end] = split('invoice-processing-for-the-regional-office-001');
    expect([start + end, end]).toEqual(['invoice-processing-for-the-regional-office-001', 'office-001']);
  });

  it('are not split inside a character', () => {
    expect(split('𝔘'.repeat(30))).toEqual(['𝔘'.repeat(20), '𝔘'.repeat(10)]);
  });
});
