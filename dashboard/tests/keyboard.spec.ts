import { expect, test } from './support/fixtures';
import { pressShortcut } from './support/keys';
import { editRegistry } from './support/registry';

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
    await pressShortcut(page, keys, page.getByRole('heading', { name: heading, exact: true }));
  }
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await page.keyboard.press('?');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await expect(dialog).toBeHidden();
});

test('Escape leads from a session back to the list, over its tabs', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/runs?agent=reviewer`);
  await expect(page.getByText('all 2 runs')).toBeVisible();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  for (const tab of ['Attempts', 'Journal']) await page.getByRole('link', { name: tab }).click();
  await expect(page.getByText('the run completed')).toBeVisible();
  await page.keyboard.press('?');
  await page.keyboard.press('Escape');
  await expect(page).toHaveURL(/\/journal/);
  await page.keyboard.press('Escape');
  await expect(page).toHaveURL(/\/runs\?agent=reviewer$/);
  await expect(page.locator('[aria-rowindex="2"] a')).toBeFocused();
  await page.goto(demo.session('first'));
  await expect(page.getByRole('heading', { name: 'Result:' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('heading', { name: 'Runs' })).toBeVisible();
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
  }).toPass({ intervals: [10] });
  await page.keyboard.press('Enter');
  await expect(page.locator('header .verdict')).toContainText('Output Schema:');
  await expect(page.getByRole('heading', { name: 'triage' })).toBeVisible();
});

test('agent and schema are created, edited and deleted', async ({ page, demo }) => {
  await editRegistry(page, demo.ui);
});
