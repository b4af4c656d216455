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
