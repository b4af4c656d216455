import { replaceText } from './support/editor';
import { expect, test } from './support/fixtures';

const WIDE = '9007199254740993';

test('digits of a schema survive being stored, shown, tried and checked', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/schemas?new=1`);
  await page.getByLabel('Name').fill('wide');
  await replaceText(page.getByRole('textbox', { name: 'Schema' }), `{"const": ${WIDE}}`);
  await page.getByRole('button', { name: 'Create schema' }).click();
  await expect(page.getByRole('region', { name: 'Schema' })).toContainText(WIDE);
  expect(await (await fetch(`${demo.api}/schemas/wide`)).text()).toContain(WIDE);
  await page.getByRole('button', { name: 'Try it' }).click();
  await expect(page.getByRole('textbox', { name: 'Schema' })).toContainText(WIDE);
  await page.getByLabel('Reply').fill('9007199254740992');
  await page.getByRole('button', { name: 'Check', exact: true }).click();
  await expect(page.getByRole('heading', { name: /^Strict/ })).toContainText('1 violation');
});

test('digits of a parameter survive the form and the next run', async ({ page, demo }) => {
  const agent = { name: 'wide', parameters_schema: { type: 'object', required: ['id'], properties: { id: { type: 'integer' } } } };
  const saved = await fetch(`${demo.api}/agents`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(agent) });
  expect(saved.status, await saved.text()).toBe(201);
  await page.goto(`${demo.ui}/runs/new?agent=wide`);
  await page.getByRole('spinbutton', { name: 'Id' }).fill(WIDE);
  const sent = page.waitForRequest((request) => request.method() === 'POST');
  await page.getByRole('button', { name: 'Start run' }).click();
  expect((await sent).postData()).toContain(`"id":${WIDE}`);
  await page.getByRole('link', { name: 'Run again', exact: true }).click();
  await expect(page.getByRole('spinbutton', { name: 'Id' })).toHaveValue(WIDE);
});
