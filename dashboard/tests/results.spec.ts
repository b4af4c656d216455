import { expect, test } from './support/fixtures';

test('null that satisfies the contract is a result, which can be copied and downloaded', async ({ page, context, demo }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.route(`**/runs/${demo.runs.first?.run_id}`, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), result_data: null } });
  });
  await page.goto(demo.session('first'));
  const result = page.getByRole('region', { name: 'Result', exact: true });
  await expect(result.locator('.value')).toHaveText('null');
  await page.getByRole('button', { name: 'Copy the result' }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('null');
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: /^Download/ }).click();
  expect((await download).suggestedFilename()).toMatch(/\.json$/);
});

test('strings that look like other values are distinguishable, and an empty text says so', async ({ page, demo }) => {
  await page.route(`**/runs/${demo.runs.first?.run_id}`, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), result_data: ['', 'null', null, '42', 42] } });
  });
  await page.goto(demo.session('first'));
  await expect(page.getByRole('region', { name: 'Result', exact: true }).locator('.value')).toHaveText(['""', '"null"', 'null', '"42"', '42']);
  await page.route(`**/runs/${demo.runs.text?.run_id}`, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), result_text: '' } });
  });
  await page.goto(`${demo.session('text')}?run=${demo.runs.text?.run_id}`);
  await expect(page.getByText('The result is an empty text.')).toBeVisible();
});

test('violations of the whole value are linked, and retries that succeeded are counted', async ({ page, demo }) => {
  await page.route(`**/runs/${demo.runs.retried?.run_id}/calls`, async (route) => {
    const response = await route.fetch();
    const answer = (await response.json()) as { calls: { violations: string[]; request: unknown }[] };
    for (const call of answer.calls) Object.assign(call, { violations: call.violations.map(() => '$: not what was asked for'), request: null });
    await route.fulfill({ response, json: answer });
  });
  await page.goto(demo.session('retried', 'attempts'));
  await expect(page.getByRole('region', { name: 'Validation', exact: true })).toContainText('Retry attempts: 1/1');
  await expect(page.getByText(/^No exact request/).first()).toBeVisible();
  await page.getByRole('article', { name: 'Call 1' }).getByRole('link', { name: 'in the schema' }).click();
  await expect(page.locator('.json .target')).toHaveText('{');
});

test('choice of a run keeps the focus, and a run beyond the list stays selectable', async ({ page, demo }) => {
  const { session_id, run_id } = demo.runs.text ?? { session_id: '', run_id: '' };
  await demo.start({ session_id, prompt: 'Say when.' });
  await page.goto(demo.session('text'));
  const choice = page.getByLabel('Run:');
  await choice.focus();
  await choice.selectOption(run_id);
  await expect(page.getByText('The harbour was quiet.', { exact: true })).toBeVisible();
  await expect(choice).toBeFocused();
  await page.route((url) => url.searchParams.has('session_id'), async (route) => {
    const response = await route.fetch();
    const { runs } = (await response.json()) as { runs: { run_id: string }[] };
    await route.fulfill({ response, json: { runs: runs.filter((run) => run.run_id !== run_id), next: 'x' } });
  });
  await page.goto(`${demo.session('text')}?run=${run_id}`);
  await expect(choice.locator('option:checked')).toHaveText('an earlier run: completed');
  await expect(page.getByText(/the latest \d+ runs?/)).toBeVisible();
});
