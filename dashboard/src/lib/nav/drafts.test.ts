import { afterEach, expect, it, vi } from 'vitest';
import { draftOf, dropDraft, dropDrafts, hasUnsaved, keepDraft, mayShow } from './drafts';

const scope = '/agents/a';
afterEach(() => dropDrafts(scope));

it('drafts stay across the tabs of a screen and the login', () => {
  const confirm = vi.fn(() => false);
  keepDraft(scope, 'output', 'typed');
  for (const address of ['/agents/a', '/agents/a/source', '/agents/a?x=1', '/login?back=%2Fagents%2Fa']) expect(mayShow(address, confirm)).toBe(true);
  expect([draftOf(scope, 'output', ''), draftOf(scope, 'source', 'none'), confirm.mock.calls.length]).toEqual(['typed', 'none', 0]);
});

it('leaving a screen asks, and drops its drafts', () => {
  keepDraft(scope, 'output', 'typed');
  expect([mayShow('/agents/ab', () => false), hasUnsaved(), draftOf(scope, 'output', '')]).toEqual([false, true, 'typed']);
  expect([mayShow('/agents', () => true), hasUnsaved(), draftOf(scope, 'output', '')]).toEqual([true, false, '']);
});

it('drafts without a question are dropped silently', () => {
  keepDraft(scope, 'form', 'typed', false);
  expect([hasUnsaved(), mayShow('/runs', () => false), draftOf(scope, 'form', '')]).toEqual([false, true, '']);
  keepDraft(scope, 'output', 'typed');
  dropDraft(scope, 'output');
  expect(hasUnsaved()).toBe(false);
});
