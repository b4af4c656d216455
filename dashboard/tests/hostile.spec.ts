import { expect, startTestServer, test } from './support/fixtures';

const LENGTH = 5 * 1024 * 1024;
const UNIT = `<script>document.title='owned'</script><img src=x onerror="document.title='owned'">javascript:alert(1) \u202Etxt.exe\u202C `;
const NODES_MAX = 1_500;
const LONG = UNIT.repeat(Math.ceil(LENGTH / UNIT.length));

test('hostile text of 5 MB stays text', async ({ page }) => {
  const output_schema = { type: 'object', required: ['comment'], properties: { comment: { type: 'string' } } };
  const server = await startTestServer({
    agentFiles: { plain: { tier: 'plain' }, typed: { tier: 'typed', output_schema, default_output_schema_options: { max_retries: 0 } } },
    replyFiles: { plain: [LONG], typed: [JSON.stringify({ comment: LONG })] },
  });
  try {
    for (const agent_name of ['plain', 'typed']) {
      const run = await server.start({ agent_name, prompt: 'x' });
      for (const tab of ['', '/attempts', '/journal']) {
        await page.goto(`${server.ui}/sessions/${run.session_id}${tab}`);
        if (tab === '/journal') await page.getByText('the model replied').click();
        // The reply is longer than what is searched for JSON; the failed run offers it as salvage.
        if (tab === '' && agent_name === 'typed') await page.getByRole('button', { name: 'Salvage' }).click();
        await expect(page.locator('main').getByText("<script>document.title='owned'</script>").first()).toBeVisible();
        await expect(page.getByText('⟦U+202E⟧').first()).toBeVisible();
        if (tab !== '') await expect(page.getByRole('button', { name: /^Download all 5\.\d MB/ }).first()).toBeVisible();
        expect(await page.locator('main img, main script').count()).toBe(0);
        expect(await page.locator('*').count()).toBeLessThan(NODES_MAX);
        expect((await page.evaluate(() => document.body.innerText)).length).toBeLessThan(1_000_000);
        await expect(page).not.toHaveTitle('owned');
      }
    }
  } finally {
    await page.close();
    await server.close();
  }
});

test('a page stays small, however many hidden characters it shows', async ({ page }) => {
  const controls = '\u0001\u0002x\u202E'.repeat(LENGTH / 12);
  const lines = { comment: 'x', lines: Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`\u202E${index}`, '\u202Ea'.repeat(500)])) };
  const server = await startTestServer({
    agentFiles: { plain: { tier: 'plain' }, typed: { tier: 'typed', output_schema: { type: 'object', required: ['missing'] }, default_output_schema_options: { max_retries: 0 } }, open: { tier: 'open', output_schema: { type: 'object' } } },
    replyFiles: { plain: [controls], typed: [JSON.stringify(lines)], open: [JSON.stringify(lines)] },
  });
  try {
    for (const agent_name of ['plain', 'typed', 'open']) {
      const run = await server.start({ agent_name, prompt: 'x' });
      for (const tab of ['', '/attempts', '/journal']) {
        await page.goto(`${server.ui}/sessions/${run.session_id}${tab}`);
        if (tab === '/journal') await page.getByText('the model replied').click();
        if (tab === '' && agent_name === 'typed') await page.getByRole('button', { name: 'Salvage' }).click();
        if (tab === '' && agent_name === 'open') for (const name of [/^lines/, /^0 … 99/]) await page.getByRole('button', { name }).click();
        await expect(page.getByText('⟦U+202E⟧').first()).toBeVisible();
        expect(await page.locator('main .hidden-character').count(), `${agent_name}${tab}`).toBeGreaterThan(0);
        expect(await page.locator('*').count(), `${agent_name}${tab}`).toBeLessThan(NODES_MAX);
      }
    }
  } finally {
    await page.close();
    await server.close();
  }
});
