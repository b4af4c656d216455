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
