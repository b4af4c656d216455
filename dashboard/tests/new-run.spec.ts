import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { replaceText } from './support/editor';
import { expect, startTestServer, test } from './support/fixtures';

test('form starts with the defaults of the parameters, and sends every option', async ({ page }) => {
  const properties = { document: { type: 'string' }, language: { enum: ['en', 'de'], default: 'de' }, pages: { type: 'integer', default: 3 } };
  const server = await startTestServer({ agentFiles: { reader: { parameters_schema: { type: 'object', required: ['document'], properties } } }, replyFiles: { local: ['{"a": 1}', '{"a": 2}'] } });
  try {
    await page.goto(`${server.ui}/runs/new?agent=reader&backend=local`);
    await expect(page.getByLabel('Language')).toHaveValue('de');
    await expect(page.getByLabel('Pages')).toHaveValue('3');
    await page.getByLabel('Document').fill('a.pdf');
    await page.getByLabel('Pages').fill('');
    await page.getByLabel('a schema for this run').check();
    await page.getByLabel('Retries').fill('3');
    await page.getByRole('combobox', { name: 'Mode' }).selectOption('lenient');
    await page.getByLabel('Strategy').selectOption('prompt');
    await page.getByLabel('Model').fill('other');
    await page.getByLabel('Token limit of a reply').fill('400');
    await page.getByLabel('Time limit in seconds').fill('60');
    const first = page.waitForRequest((sent) => sent.method() === 'POST');
    await page.getByRole('button', { name: 'Start run' }).click();
    const body = (await first).postDataJSON() as Record<string, unknown>;
    expect(body).toEqual({
      agent_name: 'reader',
      parameters: { document: 'a.pdf', language: 'de' },
      output_schema: { type: 'object', required: [], properties: {} },
      output_schema_options: { max_retries: 3, validation_mode: 'lenient', strategy: 'prompt' },
      backend: 'local',
      model: 'other',
      max_tokens: 400,
      timeout_seconds: 60,
    });

    await expect(page.getByText('Output Schema: Valid')).toBeVisible();
    const { runs } = (await (await fetch(`${server.api}/runs`)).json()) as { runs: { run_id: string }[] };
    await page.goto(`${server.ui}/runs/new?from=${runs[0]?.run_id}`);
    await expect(page.getByLabel('Document')).toHaveValue('a.pdf');
    // The server has added the default of the parameter that was left out.
    await expect(page.getByLabel('Pages')).toHaveValue('3');
    const again = page.waitForRequest((sent) => sent.method() === 'POST');
    await page.getByRole('button', { name: 'Start run' }).click();
    expect((await again).postDataJSON()).toEqual({ ...body, parameters: { document: 'a.pdf', language: 'de', pages: 3 } });
  } finally {
    await page.close();
    await server.close();
  }
});

test('options without a field are carried into the next run, and can be removed', async ({ page, demo }) => {
  const { run_id } = await demo.start({ agent_name: 'invoices', parameters: { document: 'a' }, output_schema_options: { strict_json_only: true } });
  await page.goto(`${demo.ui}/runs/new?from=${run_id}`);
  await expect(page.getByText('As in the earlier run: strict json only: true')).toBeVisible();
  await expect(page.getByText(/^slipform run invoices .*--strict-json-only/)).toBeVisible();
  await page.getByRole('button', { name: 'Remove' }).click();
  await expect(page.getByText(/--strict-json-only/)).toHaveCount(0);
});

test('printed command sends the same parameters, also those that look like options or JSON', async ({ page }) => {
  const parameters_schema = { type: 'object', properties: { prompt: { type: 'string' }, version: { type: ['string', 'integer'] } } };
  const server = await startTestServer({ agentFiles: { echo: { type: 'procedural', command: ['cat'], parameters_as: 'stdin', parameters_schema } }, replyFiles: {} });
  try {
    await page.goto(`${server.ui}/runs/new?agent=echo`);
    for (const parameters of [{ prompt: '-v is broken', version: "it's" }, { prompt: '-', version: '5' }]) {
      await replaceText(page.getByRole('textbox', { name: 'Parameters as JSON' }), JSON.stringify(parameters));
      const command = page.getByText(/^slipform run echo/);
      await expect(command).toContainText(parameters.prompt === '-' ? '--params -' : '--prompt=');
      const line = (await command.textContent()) ?? '';
      const { stdout } = await promisify(execFile)('sh', ['-c', line.replace(/^slipform/, '"$SLIPFORM"')], { env: { ...process.env, SLIPFORM: process.env.SLIPFORM_BIN ?? 'slipform' } });
      expect(JSON.parse(stdout)).toEqual(parameters);
    }
    await replaceText(page.getByRole('textbox', { name: 'Parameters as JSON' }), 'null');
    await expect(page.getByText('the parameters are not a JSON object')).toBeVisible();
    await expect(page.getByRole('button', { name: 'Start run' })).toBeDisabled();
  } finally {
    await page.close();
    await server.close();
  }
});

test.describe('with a refused request', () => {
  test.use({ allowed: [/400/] });

  test('run again continues the session of a resumed run, or says that a new one starts', async ({ page, demo }) => {
    const { session_id } = demo.runs.text ?? { session_id: '' };
    const resumed = await demo.start({ session_id, prompt: 'Say when.' });
    await page.goto(`${demo.ui}/runs/new?from=${resumed.run_id}`);
    await expect(page.getByLabel('continue that session, with its conversation')).toBeChecked();
    await expect(page.getByText(/^slipform run/)).toContainText(`--session ${session_id}`);
    const bodies: unknown[] = [];
    await page.route('**/runs', (route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      bodies.push(route.request().postDataJSON());
      return route.fulfill({ status: 400, json: { error: 'InvalidRequest', message: 'refused' } });
    });
    await page.getByRole('button', { name: 'Start run' }).click();
    await page.getByLabel('start a new session, without the conversation').check();
    await page.getByRole('button', { name: 'Start run' }).click();
    await expect.poll(() => bodies).toEqual([{ session_id, prompt: 'Say when.' }, { agent_name: (resumed as unknown as { agent_name: string }).agent_name, prompt: 'Say when.' }]);
  });
});
