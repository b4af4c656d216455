import { replaceText } from './support/editor';
import { expect, test } from './support/fixtures';

test('unsaved edits of an agent stay across tabs, and leaving asks', async ({ page, demo }) => {
  const saved = await fetch(`${demo.api}/agents`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ name: 'drafted', output_schema: { type: 'object' } }) });
  expect(saved.status).toBe(201);
  await page.goto(`${demo.ui}/agents`);
  await page.goto(`${demo.ui}/agents/drafted/output`);
  const editor = page.getByRole('textbox', { name: 'Output schema' });
  await replaceText(editor, '{"type": "object", "title": "typed"}');
  await expect(page.getByText('unsaved changes')).toBeVisible();
  await page.getByText('As a command').first().click();
  await expect(page.locator('pre').first()).toContainText(/-X PATCH .*if-match: .*"title":"typed"/);
  const tabs = page.getByRole('navigation', { name: 'Parts of the agent' });
  await tabs.getByRole('link', { name: 'General' }).click();
  await tabs.getByRole('link', { name: 'Output Schema' }).click();
  await expect(editor).toContainText('typed');

  let answer = false;
  const questions: string[] = [];
  page.on('dialog', (dialog) => {
    questions.push(dialog.message());
    return answer ? dialog.accept() : dialog.dismiss();
  });
  await page.getByRole('link', { name: 'System' }).click();
  await page.goBack();
  await page.goBack();
  await page.evaluate(() => history.go(-1));
  await expect.poll(() => questions.length).toBe(2);
  await expect(page).toHaveURL(/\/agents\/drafted\/output$/);
  await expect(editor).toContainText('typed');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expect(page.getByText('no changes')).toBeFocused();
  await replaceText(editor, '{"type": "object", "title": "again"}');
  answer = true;
  await page.getByRole('link', { name: 'System' }).click();
  await expect(page.getByRole('heading', { name: 'System' })).toBeVisible();
  expect(questions.length).toBe(3);
});

test.describe('when the token is revoked', () => {
  test.use({ allowed: [/401/] });

  test('the form of a run is there again after the login', async ({ page, demo }) => {
    let isRevoked = true;
    await page.route((url) => url.pathname === '/runs', (route) => {
      if (route.request().resourceType() === 'document') return route.fallback();
      if (route.request().method() === 'POST' && isRevoked) return route.fulfill({ status: 401, json: { error: 'Unauthorized', message: 'the token is revoked' } });
      return route.fulfill({ json: { runs: [], next: null } });
    });
    await page.goto(`${demo.ui}/runs/new?agent=triage`);
    await page.getByRole('textbox', { name: 'Prompt' }).fill('A long message');
    await page.getByLabel('Retries').fill('3');
    await page.getByRole('button', { name: 'Start run' }).click();
    await expect(page.getByRole('heading', { name: 'Log in to Slipform' })).toBeVisible();
    isRevoked = false;
    await page.route('**/agents', (route) => (route.request().resourceType() === 'document' ? route.fallback() : route.fulfill({ json: [{ name: 'other', source: 'file', problems: [], warnings: [] }, { name: 'triage', source: 'file', problems: [], warnings: [] }] })));
    for (const path of ['**/schemas', '**/backends']) await page.route(path, (route) => route.fulfill({ json: [] }));
    await page.getByLabel('Token').fill('another');
    await page.keyboard.press('Enter');
    await expect(page.getByRole('textbox', { name: 'Prompt' })).toHaveValue('A long message');
    await expect(page.getByLabel('Retries')).toHaveValue('3');
  });
});
