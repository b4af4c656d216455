import { execFileSync } from 'node:child_process';
import { runDemo } from '../scripts/demo.mjs';
import { expect, startTestServerWith, test } from './support/fixtures';

const postgres = process.env.SLIPFORM_TEST_POSTGRES;

test('main flows work on PostgreSQL', async ({ page }) => {
  test.skip(postgres === undefined, 'SLIPFORM_TEST_POSTGRES names no database server; cargo xtask test starts one');
  const database = `dashboard_${process.pid}`;
  execFileSync('psql', ['--quiet', '--command', `CREATE DATABASE ${database}`, postgres ?? '']);
  const address = new URL(postgres ?? '');
  address.pathname = `/${database}`;
  const server = await startTestServerWith({ args: ['--db', address.href] });
  try {
    const { retried, failed } = await runDemo(server.api);
    await page.goto(`${server.ui}/runs`);
    await expect(page.getByText(/all \d+ runs/)).toBeVisible();
    await page.goto(`${server.ui}/sessions/${retried?.session_id}/attempts`);
    await expect(page.getByText('Output Schema: Valid')).toBeVisible();
    await expect(page.getByText('Call 2')).toBeVisible();
    await page.goto(`${server.ui}/sessions/${failed?.session_id}`);
    await expect(page.getByText('Validation Failed')).toBeVisible();
    await expect(page.getByText('Retry attempts: 1/1 exhausted')).toBeVisible();
    await page.goto(`${server.ui}/stats`);
    await expect(page.getByText('By agent and backend')).toBeVisible();
    await page.goto(`${server.ui}/runs?verdict=retried`);
    await expect(page.locator('[role="row"][aria-rowindex]')).toHaveCount(1);
  } finally {
    await page.close();
    await server.close();
  }
});
