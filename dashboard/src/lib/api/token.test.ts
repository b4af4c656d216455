import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { saveToken, takeTokenFromAddress, token } from './token';

let stored: Record<string, string> = {};
const open = (hash: string) => vi.stubGlobal('location', { hash, pathname: '/ui/', search: '' });
const replaceState = vi.fn();

beforeEach(() => {
  stored = {};
  vi.stubGlobal('sessionStorage', { getItem: (key: string) => stored[key] ?? null, setItem: (key: string, value: string) => (stored[key] = value) });
  vi.stubGlobal('history', { state: null, replaceState });
});
afterEach(() => vi.unstubAllGlobals());

it('token of a link is kept and removed from the address', () => {
  open('#token=slf_a%2Bb');
  expect([takeTokenFromAddress(), token(), replaceState.mock.calls.length]).toEqual([true, 'slf_a+b', 1]);
  open('#other');
  expect(takeTokenFromAddress()).toBe(true);
});

it('broken escape in a link is part of the token', () => {
  open('#token=ab%');
  expect([takeTokenFromAddress(), token()]).toEqual([true, 'ab%']);
});

it('text that no header can carry is no token', () => {
  open('#token=schl%C3%BCssel');
  expect([takeTokenFromAddress(), token(), saveToken('日本'), saveToken('')]).toEqual([false, null, false, false]);
  stored['slipform.token'] = 'ключ';
  expect(token()).toBeNull();
});
