import { expect, test } from './support/fixtures';

test('list is filtered, walked and opened by keyboard', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/runs`);
  await expect(page.getByText(/all \d+ runs/)).toBeVisible();
  await page.keyboard.press('/');
  await expect(page.getByRole('combobox', { name: 'Agent' })).toBeFocused();
  await page.keyboard.type('reviewer');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/agent=reviewer/);
  await expect(page.getByText('all 2 runs')).toBeVisible();
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await expect(page.getByRole('link', { name: `reviewer, session ${demo.runs.repaired?.session_id}` })).toBeFocused();
  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'reviewer' })).toBeFocused();
  await expect(page).toHaveURL(new RegExp(`${demo.runs.retried?.session_id}`));
});

test('shortcuts go to screens, and the help closes with Escape', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/runs`);
  await expect(page.getByRole('heading', { name: 'Runs' })).toBeVisible();
  for (const [keys, heading] of [['ga', 'Agents'], ['gs', 'Schemas'], ['gr', 'Runs']] as const) {
    for (const key of keys) await page.keyboard.press(key);
    await expect(page.getByRole('heading', { name: heading, exact: true })).toBeVisible();
  }
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
});

test('run is started by keyboard alone', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/runs/new?agent=triage`);
  await page.getByRole('textbox', { name: 'Prompt' }).waitFor();
  await page.keyboard.press('Tab');
  await expect(page.getByText('Skip to content')).toBeFocused();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await expect(page.getByRole('combobox', { name: 'Agent' })).toBeFocused();
  await page.keyboard.press('Tab');
  await page.keyboard.type('Login fails');
  const start = page.getByRole('button', { name: 'Start run' });
  await expect(async () => {
    await page.keyboard.press('Tab');
    await expect(start).toBeFocused({ timeout: 100 });
  }).toPass();
  await page.keyboard.press('Enter');
  await expect(page.locator('header .verdict')).toContainText('Output Schema:');
  await expect(page.getByRole('heading', { name: 'triage' })).toBeVisible();
});

test('agent and schema are created, edited and deleted', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/agents?new=1&from=triage`);
  await expect(page.getByRole('textbox', { name: 'Agent as JSON' })).toContainText('triage-copy');
  await page.getByRole('button', { name: 'Create agent' }).click();
  await expect(page.getByRole('heading', { name: 'Agent: triage-copy' })).toBeVisible();
  await page.getByLabel('Description').fill('Judges messages');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('Judges messages')).toBeVisible();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete the agent' }).click();
  await expect(page.getByRole('heading', { name: 'Agents', exact: true })).toBeVisible();

  await page.goto(`${demo.ui}/schemas?new=1`);
  await page.getByLabel('Name').fill('summary');
  await page.getByRole('button', { name: 'Create schema' }).click();
  await expect(page.getByRole('heading', { name: 'Schema: summary' })).toBeVisible();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete the schema' }).click();
  await expect(page.getByRole('heading', { name: 'Schemas' })).toBeVisible();
});
