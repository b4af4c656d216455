import { expect, test } from './support/fixtures';

test.use({ timezoneId: 'America/New_York' });

test('chart says what it covers, and has its figures as a table', async ({ page, demo }) => {
  const asked: URLSearchParams[] = [];
  await page.route(/\/stats\/timeline/, (route) => {
    asked.push(new URL(route.request().url()).searchParams);
    return route.continue();
  });
  await page.goto(`${demo.ui}/stats?period=all`);
  await expect(page.getByText(/^One bar per day, with days in UTC, since [^.]+\.$/)).toBeVisible();
  expect(Date.now() - Date.parse(asked[0]?.get('since') ?? '')).toBeGreaterThan(900 * 86_400_000);
  await page.getByText('Figures as a table').click();
  const table = page.getByRole('table', { name: 'Runs over time' });
  const rows = await table.locator('tbody tr').evaluateAll((found) => found.map((row) => [...row.querySelectorAll('td')].slice(1).map((cell) => Number(cell.textContent))));
  for (const [runs, first, later, failed] of rows as [number, number, number, number][]) expect(first + later + failed).toBeLessThanOrEqual(runs);
  expect(rows.some((row) => (row[3] ?? 0) > 0)).toBe(true);

  await page.getByLabel('Period').selectOption('24h');
  await expect(page.getByText(/^One bar per hour, in the time zone of your browser \(America\/New_York\)/)).toBeVisible();
});

test('command asks for the figures on the page', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/stats?agent=triage`);
  await page.getByText('As a command').click();
  await expect(page.getByText(/^curl .*\/stats\?agent=triage&since=/)).toBeVisible();
  await expect(page.getByText(/^slipform stats/)).toHaveCount(0);
  await page.getByLabel('Period').selectOption('all');
  await expect(page.getByText(/^slipform stats --agent triage/)).toBeVisible();
  await expect(page.getByText(/^curl .*since/)).toHaveCount(0);
});

test('violations beyond the first rows are shown on request', async ({ page, demo }) => {
  const rows = Array.from({ length: 120 }, (_, index) => ({ path: `$.items[].field_${index}`, backend: 'local', count: 200 - index }));
  await page.route(/\/stats\/violations/, (route) => route.fulfill({ json: rows }));
  await page.goto(`${demo.ui}/stats`);
  const table = page.getByRole('table', { name: 'Violations by schema path' });
  await expect(table.getByRole('row')).toHaveCount(51);
  await expect(page.getByText('The 50 most frequent of 120 paths.')).toBeVisible();
  await page.getByRole('button', { name: 'Show all' }).click();
  await expect(table.getByRole('row')).toHaveCount(121);
  await expect(page.getByRole('button', { name: 'Show all' })).toHaveCount(0);
});

test.describe('while the server fails', () => {
  test.use({ allowed: [/500/] });

  test('another filter shows the error instead of the figures before it', async ({ page, demo }) => {
    let isFailing = false;
    await page.route(/\/stats\?/, (route) => (isFailing && route.request().resourceType() !== 'document' ? route.fulfill({ status: 500, json: { error: 'Internal', message: 'the store is unavailable' } }) : route.continue()));
    await page.goto(`${demo.ui}/stats`);
    await expect(page.getByText('By agent and backend')).toBeVisible();
    isFailing = true;
    await page.getByRole('combobox', { name: 'Agent' }).selectOption('triage');
    await expect(page.getByRole('alert')).toContainText('the store is unavailable');
    await expect(page.getByText('By agent and backend')).toHaveCount(0);
    isFailing = false;
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect(page.getByText('By agent and backend')).toBeVisible();
  });
});
