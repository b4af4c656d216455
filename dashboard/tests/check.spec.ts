import { replaceText } from './support/editor';
import { expect, test } from './support/fixtures';

test('check forgets results that do not belong to its input, and keeps its input in the history', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/check`);
  await page.getByLabel('Reply').press('ControlOrMeta+Enter');
  await expect(page.getByText('nothing checked yet')).toBeVisible();
  await page.getByRole('button', { name: 'Load an example' }).click();
  await expect(page.getByText('6 repairs')).toBeVisible();
  await replaceText(page.getByRole('textbox', { name: 'Schema' }), '{"type": ');
  await page.getByRole('button', { name: 'Check', exact: true }).click();
  await expect(page.getByRole('alert')).toContainText('the schema is not JSON');
  await expect(page.getByText('6 repairs')).toHaveCount(0);
  await page.getByRole('link', { name: 'System' }).click();
  await expect(page.getByRole('heading', { name: 'System' })).toBeVisible();
  await page.goBack();
  await expect(page.getByLabel('Reply')).toHaveValue(/^Of course!/);
  await expect(page.getByRole('textbox', { name: 'Schema' })).toContainText('{"type": ');
});

test('check with an edited schema keeps the options of the run', async ({ page, demo }) => {
  const run = await demo.start({ agent_name: 'invoices', parameters: { document: 'a' }, output_schema_options: { strict_json_only: true, max_retries: 0 } });
  await page.route(`**/runs/${run.run_id}`, async (route) => {
    const response = await route.fetch();
    const body = (await response.json()) as Record<string, unknown>;
    await route.fulfill({ response, json: { ...body, status: 'failed', error: { type: 'output_schema_validation_failed', message: 'x', last_output: 'Sure: {}', validation_errors: ['$: no'] } } });
  });
  await page.goto(`${demo.ui}/sessions/${run.session_id}`);
  const sent = page.waitForRequest((request) => request.url().endsWith('/check') && request.method() === 'POST');
  await page.getByRole('button', { name: 'Re-check with an edited schema' }).click();
  expect((await sent).postDataJSON()).toMatchObject({ text: 'Sure: {}', options: { strict_json_only: true } });
  await expect(page.getByText('As in the run: strict json only: true')).toBeVisible();
  await page.getByText('As a command').click();
  await expect(page.getByText('slipform check --schema schema.json --strict-json-only reply.txt --receipt')).toBeVisible();
});

test.describe('while the database is down', () => {
  test.use({ allowed: [/50[03]/] });

  test('system shows the reason of the readiness', async ({ page, demo }) => {
    const down = { status: 500, json: { error: 'Internal', message: 'the store is unavailable' } };
    for (const path of ['**/runners', '**/backends']) await page.route(path, (route) => route.fulfill(down));
    await page.route('**/readyz', (route) => route.fulfill({ status: 503, json: { ready: false, database: 'connection refused', draining: false, runners: 0, warnings: [], files: [] } }));
    await page.goto(`${demo.ui}/system`);
    await expect(page.getByText('not ready', { exact: true })).toBeVisible();
    await expect(page.getByText('connection refused')).toBeVisible();
    await expect(page.getByRole('alert')).toContainText('the store is unavailable');
  });
});
