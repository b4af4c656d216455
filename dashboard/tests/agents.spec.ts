import { replaceText } from './support/editor';
import { expect, test } from './support/fixtures';

const output = { type: 'object', required: ['summary', 'urgency'], properties: { summary: { type: 'string' }, urgency: { enum: ['low', 'high'] } } };

/** Saves an agent or a schema through the API, and returns the function that reads it. */
async function saved(api: string, kind: 'agents' | 'schemas', body: { name: string } & Record<string, unknown>) {
  const answer = await fetch(`${api}/${kind}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  expect(answer.status, await answer.clone().text()).toBe(201);
  return async () => (await (await fetch(`${api}/${kind}/${body.name}`)).json()) as Record<string, unknown>;
}

test('schema editor removes members, and refuses null', async ({ page, demo }) => {
  const read = await saved(demo.api, 'agents', { name: 'edited', output_schema: output });
  const smaller = { type: 'object', properties: { summary: { type: 'string' }, urgency: {} } };
  await page.goto(`${demo.ui}/agents/edited/output`);
  const editor = page.getByRole('textbox', { name: 'Output schema' });
  await replaceText(editor, JSON.stringify(smaller));
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expect(page.getByText('no changes')).toBeVisible();
  expect((await read()).output_schema).toEqual(smaller);

  await replaceText(editor, JSON.stringify({ ...smaller, properties: { summary: { default: null } } }));
  await expect(page.getByText('the value null at $.output_schema.properties.summary.default cannot be saved here')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Save', exact: true })).toBeDisabled();

  await page.goto(`${demo.ui}/agents/edited/source`);
  const source = page.getByRole('textbox', { name: 'Blueprint as JSON' });
  await replaceText(source, JSON.stringify({ name: 'edited', output_schema: { type: 'object' } }));
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expect(page.getByText('no changes')).toBeVisible();
  expect((await read()).output_schema).toEqual({ type: 'object' });
});

test('schema that an agent names is shown with a link to the registry', async ({ page, demo }) => {
  await saved(demo.api, 'schemas', { name: 'urgency', schema: output });
  await saved(demo.api, 'agents', { name: 'named', output_schema_name: 'urgency' });
  await saved(demo.api, 'agents', { name: 'named-default', default_output_schema_name: 'urgency' });
  for (const [name, retries] of [['named', '1 retry'], ['named-default', '2 retries']] as const) {
    await page.goto(`${demo.ui}/agents/${name}/output`);
    await expect(page.getByRole('region', { name: 'Schema urgency' })).toContainText('"urgency"');
    await expect(page.getByText('Info: Output schema')).toContainText(`with ${retries} on failure`);
    await expect(page.getByRole('button', { name: 'Save', exact: true })).toHaveCount(0);
  }
  await page.getByRole('link', { name: 'urgency' }).click();
  await expect(page.getByRole('heading', { name: 'Schema: urgency' })).toBeVisible();
  await expect(page.getByText('named, named-default')).toBeVisible();
});
