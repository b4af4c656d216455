import { spawnSync } from 'node:child_process';
import { expect, test } from './support/fixtures';

/** What the list shows for the types of failures in the demo project. `lost` needs a runner that dies. */
const FAILURES = ['schema validation failed', 'result not submitted', 'truncated', 'refused', 'empty reply', 'backend unavailable', 'backend rejected', 'tool failed', 'limit exceeded', 'timeout'];

test('completed run shows the words of the design', async ({ page, demo }) => {
  await page.goto(demo.session('first'));
  await expect(page.locator('header .verdict')).toContainText('Output Schema: Valid');
  const facts = page.locator('header dl');
  await expect(facts).toContainText(`Session: ${demo.runs.first?.session_id}`);
  await expect(facts).toContainText('Agent: triage');
  await expect(facts.locator('div').filter({ hasText: 'Status: completed' })).toBeInViewport({ ratio: 1 });
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

test('text of models in consequences, names and titles is made visible', async ({ page, demo }) => {
  await page.route(`**/runs/${demo.runs.retried?.run_id}/calls`, async (route) => {
    const response = await route.fetch();
    const answer = (await response.json()) as { calls: Record<string, any>[] };
    const [first] = answer.calls;
    if (first) Object.assign(first, { consequence: 'sent back\u202E', violations: first.violations.map((words: string) => `${words}\u202E`) });
    if (first) first.reply.tool_calls = [{ id: '1', name: 'read\u202E', arguments: '{}' }];
    await route.fulfill({ response, json: answer });
  });
  await page.goto(demo.session('retried', 'attempts'));
  await expect(page.getByText('sent back⟦U+202E⟧')).toBeVisible();
  await expect(page.getByText('calls read⟦U+202E⟧')).toBeVisible();
  const raw = await page.evaluate(() => [...document.querySelectorAll('main *')].flatMap((element) => [...element.attributes]).filter(({ value }) => /[\u202a-\u202e]/.test(value)).map(({ name }) => name));
  expect(raw).toEqual([]);
  expect(await page.evaluate(() => document.body.innerText)).not.toContain('\u202e');
});

test('cut list of repairs says so', async ({ page, demo }) => {
  await page.route(`**/runs/${demo.runs.repaired?.run_id}/calls`, async (route) => {
    const response = await route.fetch();
    const answer = (await response.json()) as { calls: { extraction: { repairs: unknown[] } | null }[] };
    for (const { extraction } of answer.calls) if (extraction) extraction.repairs = Array.from({ length: 1_000 }, () => extraction.repairs[0]);
    await route.fulfill({ response, json: answer });
  });
  await page.goto(demo.session('repaired', 'attempts'));
  await expect(page.getByText(/The server lists the first 1.?000 repairs of a reply/)).toBeVisible();
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
  expect(await first.locator('mark.bad').textContent(), 'without white space around it').toBe('"critical"');
  await first.getByText('Exact request').click();
  await expect(first.getByRole('group', { name: 'Message of user' })).toContainText('Review it again');
  await first.getByRole('link', { name: 'in the schema' }).click();
  await expect(page.locator('.json .target')).toContainText('"severity"');
  await page.goBack();
  await first.getByRole('link', { name: 'in the result' }).click();
  await expect(page.getByRole('region', { name: 'Result' }).locator('.target')).toContainText('severity');
});

test('large result has a preview and a complete download', async ({ page, demo }) => {
  await page.goto(demo.session('large'));
  await expect(page.getByText(/the result has 2\.\d MB/)).toBeVisible();
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
  expect(size).toBeGreaterThan(2_500_000);
});

test('integers above 2^53 are shown, copied and downloaded with all digits', async ({ page, context, demo }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.route(`**/runs/${demo.runs.first?.run_id}`, async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace(/"result_data":\s*\{/, '"result_data": {"id": 9007199254740993, "rate": 1.50, ');
    await route.fulfill({ response, body });
  });
  await page.goto(demo.session('first'));
  await expect(page.getByRole('region', { name: 'Result' })).toContainText('9007199254740993');
  await page.getByRole('button', { name: 'Copy the result' }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(/^\{"id": 9007199254740993, "rate": 1\.50, "/);
  await page.getByRole('button', { name: 'Text', exact: true }).click();
  await expect(page.getByRole('group', { name: 'Result as text' })).toContainText('"id": 9007199254740993');
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: /^Download/ }).click();
  const stream = await (await download).createReadStream();
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  expect(text).toMatch(/^\{"id": 9007199254740993, "rate": 1\.50, "/);
});

test('why did it fail offers salvage, a lenient check, another backend and a test case', async ({ page, demo }) => {
  await page.goto(demo.session('failed'));
  await page.getByRole('button', { name: 'Salvage' }).click();
  await expect(page.getByRole('region', { name: 'Salvaged value' })).toContainText('"critical"');
  await page.getByRole('button', { name: 'Re-check in lenient mode' }).click();
  await expect(page.getByText('still invalid in lenient mode')).toBeVisible();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save as a test case' }).click();
  const saved = await download;
  expect(saved.suggestedFilename()).toMatch(/-case\.jsonl$/);
  const checked = spawnSync(process.env.SLIPFORM_BIN ?? 'slipform', ['check', '--jsonl', await saved.path()], { encoding: 'utf8' });
  expect(JSON.parse(checked.stdout)).toMatchObject({ id: demo.runs.failed?.run_id, valid: false, errors: [expect.stringContaining('$.severity')] });
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
  await expect(table.getByRole('row')).toHaveCount(12);
  await expect(table).toContainText('plan 1');
  await table.getByRole('link', { name: 'write · writer' }).click();
  await expect(page.getByRole('heading', { name: 'writer' })).toBeVisible();
  await page.getByRole('link', { name: 'Parent' }).click();
  await expect(table).toBeVisible();
  await expect(page).toHaveURL(new RegExp(`tree\\?run=${demo.runs.orchestrated?.run_id}$`));
});

test('phone shows the connection, and the number, time and type of events', async ({ page, demo }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(demo.session('retried', 'journal'));
  await expect(page.getByText('live', { exact: true })).toBeInViewport({ ratio: 1 });
  const event = page.getByRole('listitem').filter({ hasText: 'the run completed' });
  await expect(event.getByText('run_completed')).toBeVisible();
  await expect(event.locator('time')).toBeVisible();
  const boxes = await Promise.all(['.seq', 'time', '.type'].map((part) => event.locator(part).boundingBox()));
  boxes.forEach((box, index) => expect(box?.x).toBeGreaterThan(index === 0 ? 0 : (boxes[index - 1]?.x ?? 0) + (boxes[index - 1]?.width ?? 0)));
  const menu = page.getByRole('button', { name: 'Menu' });
  await menu.click();
  await expect(page.getByRole('link', { name: 'Agents' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('link', { name: 'Agents' })).toBeHidden();
  await expect(page).toHaveURL(/\/journal$/);
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
  await expect(page.getByText(/all \d+ runs/)).toBeVisible();
  await expect(page.getByText('completed')).toHaveCount(1);
  await page.getByLabel('Status').selectOption('completed');
  await expect(page).toHaveURL(/status=completed/);
  await page.goBack();
  await expect(page.getByLabel('Status')).toHaveValue('failed');
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

test('row of an earlier run opens that run, and its page stays with it', async ({ page, demo }) => {
  const first = demo.runs.text?.run_id ?? '';
  const later = await demo.start({ session_id: demo.runs.text?.session_id, prompt: 'Say when.' });
  expect(later.run_id).not.toBe(first);
  await page.goto(`${demo.ui}/runs`);
  await page.locator(`main a[href$="run=${first}"]`).click();
  await expect(page.getByText('The harbour was quiet.', { exact: true })).toBeVisible();
  await page.getByText('As a command').click();
  await expect(page.locator('pre').first()).toContainText(`/runs/${first}/result`);
  const failed = demo.runs.failed?.run_id ?? '';
  await page.goto(`${demo.session('failed')}?run=${failed}`);
  await expect(page.getByRole('link', { name: 'Look at the attempts' })).toHaveAttribute('href', new RegExp(`attempts\\?run=${failed}$`));
});

test('run of another session is refused', async ({ page, demo }) => {
  await page.goto(`${demo.session('first')}?run=${demo.runs.text?.run_id}`);
  await expect(page.getByRole('alert')).toContainText(`belongs to session`);
  await expect(page.getByRole('region', { name: 'Result' })).toHaveCount(0);
});

test.describe('while the server fails', () => {
  test.use({ allowed: [/500/] });

  test('session recovers, becomes live, and shows a later failure above the run', async ({ page, demo }) => {
    let isFailing = true;
    const unavailable = { status: 500, json: { error: 'Internal', message: 'the store is unavailable' } };
    await page.route(`**/sessions/${demo.runs.failed?.session_id}`, (route) => (isFailing && route.request().resourceType() !== 'document' ? route.fulfill(unavailable) : route.fallback()));
    await page.goto(demo.session('failed'));
    await expect(page.getByRole('alert')).toContainText('the store is unavailable');
    isFailing = false;
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect(page.getByRole('heading', { name: 'Why did it fail' })).toBeVisible();
    await expect(page.getByText('live', { exact: true })).toBeVisible();
  });

  test('attempts of a run that cannot be read again stay, with the error', async ({ page, demo }) => {
    const { session_id, run_id } = demo.runs.retried ?? { session_id: '', run_id: '' };
    const event = { seq: 1_000, session_id, run_id, timestamp: new Date().toISOString(), event_type: 'lease_expired', attempt: 1 };
    let isFailing = false;
    let streams = 0;
    await page.route(`**/sessions/${session_id}/events/stream`, async (route) => {
      streams += 1;
      if (streams > 1) return;
      await expect(page.getByRole('region', { name: 'Result' })).toBeVisible();
      isFailing = true;
      await route.fulfill({ contentType: 'text/event-stream', body: `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n` });
    });
    await page.route(`**/runs/${run_id}`, (route) => (isFailing ? route.fulfill({ status: 500, json: { error: 'Internal', message: 'the store is unavailable' } }) : route.fallback()));
    await page.goto(demo.session('retried'));
    await expect(page.getByRole('alert')).toContainText('not up to date: the store is unavailable');
    await expect(page.getByRole('region', { name: 'Result' })).toBeVisible();
    await page.unroute(`**/runs/${run_id}`);
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect(page.getByRole('alert')).toHaveCount(0);
  });
});

test('program cannot be resumed, and the session says so', async ({ page, demo }) => {
  await page.goto(demo.session('large'));
  await expect(page.getByText('a program cannot be resumed, only run again')).toBeVisible();
  await expect(page.getByRole('link', { name: 'Run again' })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Resume' })).toHaveCount(0);
  await page.goto(demo.session('text'));
  await expect(page.getByRole('button', { name: 'Resume' })).toBeVisible();
});

test('run list has a result for every run', async ({ page, demo }) => {
  // High enough for all rows, because the list draws the visible ones only.
  await page.setViewportSize({ width: 1280, height: 2_000 });
  await page.goto(`${demo.ui}/runs`);
  await expect(page.getByText(/all \d+ runs/)).toBeVisible();
  const results = await page.locator('[role="row"][aria-rowindex] .verdict').allInnerTexts();
  expect(results.length).toBeGreaterThan(20);
  expect(results.filter((text) => text.trim() === '')).toEqual([]);
  expect(results.map((text) => text.trim())).toEqual(expect.arrayContaining(['first pass', '7 repairs', 'retry 1/1', 'escalated', 'no schema', 'no result', ...FAILURES]));
});
