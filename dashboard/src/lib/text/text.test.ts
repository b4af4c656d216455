import { describe, expect, it } from 'vitest';
import { codePoints, pointOffset, segments, utf16Offsets } from './spans';
import { cut, visible, visibleText } from './visible';

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
    expect(pointOffset('a👩b', 3)).toBe(2);
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
