import { describe, expect, it } from 'vitest';
import { bytes, compact, counted, percent } from './numbers';
import { age, between, duration } from './time';

describe('duration', () => {
  it.each([
    [0, '0 ms'],
    [999, '999 ms'],
    [1_000, '1.0 s'],
    [9_949, '9.9 s'],
    [9_960, '10 s'],
    [59_400, '59 s'],
    [59_600, '1 min'],
    [185_000, '3 min 5 s'],
    [7_800_000, '2 h 10 min'],
    [273_600_000, '3 d 4 h'],
    [-5, '0 ms'],
  ])('%d ms is %s', (ms, text) => expect(duration(ms)).toBe(text));
});

describe('age', () => {
  const now = Date.parse('2026-11-18T12:00:00Z');
  it.each([
    ['2026-11-18T11:59:58Z', 'now'],
    ['2026-11-18T12:05:00Z', 'now'],
    ['2026-11-18T11:59:15Z', '45 s'],
    ['2026-11-18T11:48:00Z', '12 min'],
    ['2026-11-18T07:00:00Z', '5 h'],
    ['2026-11-15T11:00:00Z', '3 d'],
    ['not a time', ''],
  ])('%s is %s', (then, text) => expect(age(then, now)).toBe(text));

  it('measures until now without an end', () => {
    expect(between('2026-11-18T11:59:00Z', null, now)).toBe(60_000);
    expect(between(null, null, now)).toBeNull();
  });
});

describe('numbers', () => {
  it.each([[950, '950'], [12_400, '12.4k'], [999_950, '1M'], [3_140_000, '3.1M'], [250_000, '250k']])('%d is %s', (value, text) => expect(compact(value)).toBe(text));
  it('never rounds a rate to 0 or 100', () => {
    expect([percent(0), percent(0.0001), percent(0.5), percent(0.9999), percent(1), percent(null)]).toEqual(['0 %', '< 0.1 %', '50 %', '> 99.9 %', '100 %', '–']);
  });
  it('counts with the right word', () => {
    expect([counted(1, 'repair'), counted(2_000, 'repair'), bytes(3_100_000)]).toEqual(['1 repair', '2,000 repairs', '3.1 MB']);
  });
});
