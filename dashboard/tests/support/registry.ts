import { expect, type Page } from '@playwright/test';
import { replaceText } from './editor';

/** Creates, changes and deletes an agent as a copy of `triage`, then a schema. */
export async function editRegistry(page: Page, ui: string): Promise<void> {
  await page.goto(`${ui}/agents?new=1&from=triage`);
  await expect(page.getByRole('textbox', { name: 'Agent as JSON' })).toContainText('triage-copy');
  await page.getByRole('button', { name: 'Create agent' }).click();
  await expect(page.getByRole('heading', { name: 'Agent: triage-copy' })).toBeVisible();
  await page.getByLabel('Description').fill('Judges messages');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('Judges messages')).toBeVisible();
  await page.getByRole('link', { name: 'Output Schema' }).click();
  await replaceText(page.getByRole('textbox', { name: 'Output schema' }), '{"type": "object", "properties": {"summary": {"type": "string"}}}');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('no changes')).toBeVisible();
  await page.reload();
  await expect(page.getByRole('textbox', { name: 'Output schema' })).toContainText('summary');
  await expect(page.getByRole('textbox', { name: 'Output schema' })).not.toContainText('urgency');
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete the agent' }).click();
  await expect(page.getByRole('heading', { name: 'Agents', exact: true })).toBeVisible();
  await page.goto(`${ui}/agents?q=triage`);
  await expect(page.getByRole('link', { name: 'triage', exact: true })).toBeVisible();
  await expect(page.getByRole('link', { name: 'triage-copy' })).toHaveCount(0);

  await page.goto(`${ui}/schemas?new=1`);
  await page.getByLabel('Name').fill('summary');
  await page.getByRole('button', { name: 'Create schema' }).click();
  await expect(page.getByRole('heading', { name: 'Schema: summary' })).toBeVisible();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete the schema' }).click();
  await expect(page.getByRole('heading', { name: 'Schemas' })).toBeVisible();
}
