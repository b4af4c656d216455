import { expect, startTestServer, test } from './support/fixtures';

test('completed run shows the words of the design', async ({ page, demo }) => {
  await page.goto(demo.session('first'));
  await expect(page.locator('header .verdict')).toContainText('Output Schema: Valid');
  const facts = page.locator('header dl');
  await expect(facts).toContainText(`Session: ${demo.runs.first?.session_id}`);
  await expect(facts).toContainText('Agent: triage');
  await expect(facts).toContainText('Status: completed');
  await expect(page.getByRole('heading', { name: 'Result:' })).toBeVisible();
});

test('failed run shows errors and exhausted retries', async ({ page, demo }) => {
  await page.goto(demo.session('failed'));
  const outcome = page.getByRole('region', { name: 'Validation', exact: true });
  await expect(outcome).toContainText('Output Schema: Validation Failed');
  await expect(outcome).toContainText('Errors:');
  await expect(outcome).toContainText("$.severity: 'critical' is not one of ['low', 'medium', 'high']");
  await expect(outcome).toContainText('Retry attempts: 1/1 exhausted');
});

test('agent editor shows its tabs, the info text and the validate button', async ({ page, demo }) => {
  await page.goto(`${demo.ui}/agents/code-analyzer/output`);
  await expect(page.getByRole('heading', { name: 'Agent: code-analyzer' })).toBeVisible();
  for (const tab of ['General', 'Input Schema', 'Output Schema', 'MCP Servers', 'Tools & Delegation', 'Source', 'Runs']) {
    await expect(page.getByRole('navigation', { name: 'Parts of the agent' }).getByRole('link', { name: tab })).toBeVisible();
  }
  await expect(page.getByText('Output Schema (JSON Schema)')).toBeVisible();
  await expect(page.getByText('Info: Output schema is enforced on every run (start and resume).')).toContainText('Validation happens in the executor with 1 retry on failure.');
  await page.getByRole('button', { name: 'Validate Schema' }).click();
  await expect(page.getByText('valid schema')).toBeVisible();
});

test('hostile text stays text', async ({ page, demo }) => {
  for (const tab of ['', 'attempts', 'journal']) {
    await page.goto(demo.session('hostile', tab));
    if (tab === 'journal') await page.getByText('the model replied').click();
    await expect(page.getByText('<script>alert(1)</script>').first()).toBeVisible();
    await expect(page.getByText('⟦U+202E⟧').first()).toBeVisible();
    const shown = await page.evaluate(() => document.body.innerText);
    expect(shown).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200b]/);
    expect(await page.locator('main img, main script, main b').count()).toBe(0);
    await expect(page).not.toHaveTitle('owned');
  }
});

test('attempts mark repairs in the text and link violations', async ({ page, demo }) => {
  await page.goto(demo.session('repaired', 'attempts'));
  const reply = page.getByRole('region', { name: 'Raw reply text of call 1' });
  await expect(reply.locator('mark.lossless', { hasText: '// 42 files' })).toBeVisible();
  await expect(reply.locator('mark.removed', { hasText: 'Here is my review' })).toBeVisible();
  await expect(page.getByText('satisfies the schema')).toBeVisible();

  await page.goto(demo.session('lenient', 'attempts'));
  await expect(page.locator('mark.lossy', { hasText: '"1,299.00"' })).toBeVisible();
  await expect(page.getByText('lossy', { exact: true }).first()).toBeVisible();

  await page.goto(demo.session('retried', 'attempts'));
  const first = page.getByRole('article', { name: 'Call 1' });
  await expect(first.locator('mark.bad')).toHaveText('"critical"');
  await first.getByText('Exact request').click();
  await expect(first.getByRole('group', { name: 'Message of user' })).toContainText('Review it again');
  await first.getByRole('link', { name: 'in the schema' }).click();
  await expect(page.locator('.json .target')).toContainText('"severity"');
});

test('large result has a preview and a complete download', async ({ page, demo }) => {
  await page.goto(demo.session('large'));
  await expect(page.getByText(/the result has 4\.\d MB/)).toBeVisible();
  await page.getByRole('button', { name: /^rows/ }).click();
  await page.getByRole('button', { name: '20000 … 29999' }).click();
  await page.getByRole('button', { name: '29900 … 29999' }).click();
  await page.getByRole('button', { name: /^29999/ }).click();
  await expect(page.getByText('sensor 029999')).toBeVisible();
  await page.getByRole('button', { name: 'Text', exact: true }).click();
  await expect(page.getByRole('button', { name: /show more/ })).toBeVisible();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: /^Download/ }).click();
  const stream = await (await download).createReadStream();
  let size = 0;
  for await (const chunk of stream) size += (chunk as Buffer).length;
  expect(size).toBeGreaterThan(3_000_000);
});

test('why did it fail offers salvage, a lenient check, another backend and a test case', async ({ page, demo }) => {
  await page.goto(demo.session('failed'));
  await page.getByRole('button', { name: 'Salvage' }).click();
  await expect(page.getByRole('region', { name: 'Salvaged value' })).toContainText('"critical"');
  await page.getByRole('button', { name: 'Re-check in lenient mode' }).click();
  await expect(page.getByText('still invalid in lenient mode')).toBeVisible();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save as a test case' }).click();
  expect((await download).suggestedFilename()).toMatch(/-case\.json$/);
  await page.getByRole('link', { name: 'Run again with another backend' }).click();
  await expect(page.getByRole('textbox', { name: 'Prompt' })).toHaveValue('Analyze src/');
  await expect(page.getByLabel('Backend')).toBeFocused();
  await page.goBack();
  await page.getByRole('button', { name: 'Re-check with an edited schema' }).click();
  await expect(page.getByRole('heading', { name: /^Strict/ })).toContainText('1 violation');
});

test('tree shows subtasks beside one time axis', async ({ page, demo }) => {
  await page.goto(demo.session('orchestrated', 'tree'));
  const table = page.getByRole('table', { name: 'Runs of the session and its children' });
  await expect(table.getByRole('row')).toHaveCount(5);
  await expect(table).toContainText('plan 1');
  await table.getByRole('link', { name: 'write · writer' }).click();
  await expect(page.getByRole('heading', { name: 'writer' })).toBeVisible();
  await page.getByRole('link', { name: 'Parent' }).click();
  await expect(table).toBeVisible();
});

test('deep links, back and forward restore screens and filters', async ({ page, demo }) => {
  await page.goto(demo.session('retried', 'journal'));
  await expect(page.getByText('the run completed')).toBeVisible();
  await page.getByRole('link', { name: 'Contract' }).click();
  await expect(page).toHaveURL(/\/contract$/);
  await page.goBack();
  await expect(page.getByText('the run completed')).toBeVisible();
  await page.goForward();
  await expect(page.getByText('max retries')).toBeVisible();
  await page.goto(`${demo.ui}/runs?status=failed`);
  await expect(page.getByText(/all \d runs/)).toBeVisible();
  await expect(page.getByText('completed')).toHaveCount(1);
  await page.getByLabel('Status').selectOption('completed');
  await expect(page).toHaveURL(/status=completed/);
  await page.goBack();
  await expect(page.getByLabel('Status')).toHaveValue('failed');
});

test('empty project walks through the first run', async ({ page }) => {
  const server = await startTestServer({ agentFiles: {}, replyFiles: {} });
  try {
    await page.goto(server.ui);
    await expect(page.getByText('no runs yet: three steps to the first one')).toBeVisible();
    await expect(page.getByText('Define an agent')).toBeVisible();
    await expect(page.getByRole('link', { name: 'Start the first run' })).toBeVisible();
  } finally {
    await page.close();
    await server.close();
  }
});

test('resumed session shows the new run, and the earlier one on request', async ({ page, demo }) => {
  await page.goto(demo.session('text'));
  await expect(page.getByText('The harbour was quiet.')).toBeVisible();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByLabel('Message').fill('Say when.');
  await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
  await expect(page.getByText('At dawn the harbour was quiet.')).toBeVisible();
  await page.getByLabel('Run:').selectOption(demo.runs.text?.run_id ?? '');
  await expect(page.getByText('The harbour was quiet.', { exact: true })).toBeVisible();
  await expect(page).toHaveURL(/run=run_/);
});
