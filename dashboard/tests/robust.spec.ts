import type { Page, Route } from '@playwright/test';
import { expect, test } from './support/fixtures';

/** Answers requests for a path with JSON; pages with the same path stay. */
const answer = (page: Page, path: string, json: unknown) => page.route((url) => url.pathname === path, (route: Route) => (route.request().resourceType() === 'document' ? route.fallback() : route.fulfill({ json })));

test('backends with one name and several models are listed, and offered once', async ({ page, demo }) => {
  const backend = (model: string) => ({ name: 'shared', kind: 'openai', model, runners: ['rnr_1'], probe: null });
  await answer(page, '/backends', [backend('small'), backend('large')]);
  await page.goto(`${demo.ui}/system`);
  await expect(page.getByRole('row').filter({ hasText: 'shared' })).toHaveCount(2);
  await page.goto(`${demo.ui}/runs/new?agent=triage`);
  await expect(page.getByLabel('Backend').locator('option', { hasText: 'shared' })).toHaveText(['shared (small, large)']);
});

test('agent that lists a tool twice is shown', async ({ page, demo }) => {
  await answer(page, '/agents/lead', { name: 'lead', source: 'file', path: 'agents/lead.yaml', problems: [], warnings: [], tools: ['fs:read', 'fs:read'], agents: ['counter', 'counter'] });
  await page.goto(`${demo.ui}/agents/lead/tools`);
  await expect(page.getByText('fs:read')).toHaveCount(2);
});

test('answer that a screen cannot show leaves the other screens usable', async ({ page, demo }) => {
  await answer(page, '/schemas', [{ name: 'broken' }]);
  await page.goto(`${demo.ui}/schemas`);
  await expect(page.getByRole('alert')).toContainText('the page cannot show this');
  await page.getByRole('link', { name: 'System' }).click();
  await expect(page.getByRole('heading', { name: 'Backends' })).toBeVisible();
});

test('copy works without the clipboard of a secure context', async ({ page, demo }) => {
  await page.addInitScript(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
  await page.goto(`${demo.session('text')}?run=${demo.runs.text?.run_id}`);
  await expect(page.getByText('The harbour was quiet.', { exact: true })).toBeVisible();
  await page.evaluate(() => document.addEventListener('copy', () => ((window as unknown as { copied: string }).copied = (document.activeElement as HTMLTextAreaElement).value)));
  await page.getByRole('button', { name: 'Copy the result' }).click();
  await expect(page.getByRole('button', { name: 'Copied the result' })).toBeFocused();
  expect(await page.evaluate(() => (window as unknown as { copied: string }).copied)).toBe('The harbour was quiet.');
});

test.describe('with a broken login link', () => {
  test.use({ allowed: [/401/] });

  test('login says what is wrong with its token', async ({ page, demo }) => {
    await page.goto(`${demo.ui}/agents#token=schl%C3%BCssel`);
    await expect(page.getByRole('alert')).toContainText('the token in the link has characters that no token has');
    await page.goto(`${demo.ui}/system#token=ab%`);
    await expect(page.getByRole('heading', { name: /^(System|Log in to Slipform)$/ })).toBeVisible();
  });
});

test('statistics of a deleted agent name it', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/stats?agent=retired`);
  await expect(page.getByLabel('Agent')).toHaveValue('retired');
  await expect(page.getByLabel('Agent').locator('option:checked')).toHaveText('retired (no longer defined)');
  await page.getByText('As a command').click();
  await expect(page.locator('pre').first()).toContainText('/stats?agent=retired');
  await page.getByRole('heading', { name: 'Statistics' }).focus();
  await page.keyboard.press('/');
  await expect(page.getByLabel('Agent')).toBeFocused();
});

test('time filter of an address is shown, and a year that is being typed changes nothing', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/runs?since=2026-01-01T12:00:00Z`);
  const input = page.getByLabel('Created after');
  await expect(input).toHaveValue(/^2026-01-01T|^2026-01-02T/);
  await input.fill('0202-03-04T05:06');
  await input.blur();
  await expect(page).toHaveURL(/since=2026-01-01T12/);
  await input.fill('2025-03-04T05:06');
  await input.blur();
  await expect(page).toHaveURL(/since=2025-03-04T05/);
  await page.getByRole('button', { name: 'Clear' }).click();
  await expect(page.getByRole('textbox', { name: 'Agent' }).or(page.getByRole('combobox', { name: 'Agent' }))).toBeFocused();
});
