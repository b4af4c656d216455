import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, startTestServer, test } from './support/fixtures';

test('empty project walks through a first run on the embedded model', async ({ page }) => {
  const server = await startTestServer({ agentFiles: {}, replyFiles: {} });
  try {
    await page.goto(server.ui);
    await expect(page.getByText('no runs yet: three steps to the first one')).toBeVisible();
    await expect(page.getByText('needs no key')).toBeVisible();
    await expect(page.getByText('slipform model pull', { exact: true })).toBeVisible();
    await expect(page.getByText('Done:')).toHaveCount(0);
    await page.getByRole('button', { name: 'Create the agent triage' }).click();
    await expect(page.getByRole('heading', { name: 'Done: Define an agent' })).toBeVisible();
    await page.getByRole('link', { name: 'Run it on the embedded model' }).click();
    await expect(page).toHaveURL(/\/runs\/new\?agent=triage&backend=embedded$/);
    await expect(page.getByRole('combobox', { name: 'Agent' })).toHaveValue('triage');
    await expect(page.getByRole('combobox', { name: 'Backend', exact: true })).toHaveValue('embedded');
    await page.getByRole('textbox', { name: 'Prompt' }).fill('The disk is full.');
    const request = page.waitForRequest((sent) => sent.method() === 'POST');
    await page.getByRole('button', { name: 'Start run' }).click();
    expect((await request).postDataJSON()).toEqual({ agent_name: 'triage', prompt: 'The disk is full.', backend: 'embedded' });
    await expect(page.getByRole('heading', { name: 'triage' })).toBeVisible();
  } finally {
    await page.close();
    await server.close();
  }
});

test('steps of the first run tick themselves', async ({ page }) => {
  const server = await startTestServer({ agentFiles: {}, replyFiles: { local: [] } });
  try {
    await page.goto(server.ui);
    await expect(page.getByRole('heading', { name: 'Done: Choose a model' })).toBeVisible();
    await expect(page.getByRole('heading', { name: 'Define an agent', exact: true })).toBeVisible();
    writeFileSync(join(server.folder, 'agents', 'mine.yaml'), 'name: mine\nsystem_prompt: Answer.\n');
    await expect(page.getByText('This project has an agent: mine.')).toBeVisible();
    await expect(page.getByRole('link', { name: 'Start the first run' })).toHaveAttribute('href', '/ui/runs/new?agent=mine');
  } finally {
    await page.close();
    await server.close();
  }
});

test.describe('while the server fails', () => {
  test.use({ allowed: [/500/] });

  test('first run shows the error instead of an empty project, and recovers', async ({ page }) => {
    const server = await startTestServer({ agentFiles: { mine: {} }, replyFiles: {} });
    let isFailing = true;
    await page.route(/\/agents$/, (route) => (isFailing ? route.fulfill({ status: 500, json: { error: 'Internal', message: 'the store is unavailable' } }) : route.continue()));
    try {
      await page.goto(server.ui);
      await expect(page.getByRole('alert')).toContainText('the store is unavailable');
      await expect(page.getByText('Define an agent')).toHaveCount(0);
      isFailing = false;
      await expect(page.getByText('This project has an agent: mine.')).toBeVisible();
    } finally {
      await page.close();
      await server.close();
    }
  });
});
