// Measures how long screens take in Chromium, beside the answers of the API that they show.
//
//   SLIPFORM_BIN=path/to/slipform node scripts/bench.mjs [ROUNDS]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { chromium } from '@playwright/test';
import { demoProject, runDemo, startServer, writeProject } from './demo.mjs';

const ROUNDS = Number(process.argv[2] ?? 7);

const folder = mkdtempSync(join(tmpdir(), 'slipform-bench-ui-'));
writeProject(folder, await demoProject());
const server = await startServer(process.env.SLIPFORM_BIN ?? 'slipform', folder);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Returns the median duration of an action, in milliseconds. */
async function measure(action) {
  const durations = [];
  for (let round = 0; round < ROUNDS; round += 1) durations.push(await action());
  return median(durations);
}

/** Fetches documents of the API one after another. */
const fetched = (...paths) => async () => {
  const start = performance.now();
  for (const path of paths) await (await fetch(server.url + path)).arrayBuffer();
  return performance.now() - start;
};

/** Opens a screen in a new tab, with an empty cache unless it is warm, until a text is visible. */
const opened = (path, text, { warm = false } = {}) => async () => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  if (warm) {
    await page.goto(`${server.url}/ui/system`);
    await page.getByText('Backends').first().waitFor();
  }
  const start = performance.now();
  await page.goto(server.url + path);
  await page.getByText(text).first().waitFor();
  const duration = performance.now() - start;
  await context.close();
  return duration;
};

try {
  const runs = await runDemo(server.url);
  const session = (name) => `/ui/sessions/${runs[name].session_id}`;
  const journal = (name) => `/sessions/${runs[name].session_id}/events`;
  const rows = [
    ['runs, empty cache', opened('/ui/runs', 'first pass'), fetched('/runs?limit=50')],
    ['runs, files in the cache', opened('/ui/runs', 'first pass', { warm: true }), fetched('/runs?limit=50')],
    ['attempts of a repaired run', opened(`${session('repaired')}/attempts`, 'satisfies the schema', { warm: true }), fetched(`/runs/${runs.repaired.run_id}`, `/runs/${runs.repaired.run_id}/calls`)],
    ['journal of a retried run', opened(`${session('retried')}/journal`, 'the run completed', { warm: true }), fetched(journal('retried'))],
    ['result of 3 MB', opened(session('large'), 'the download is complete', { warm: true }), fetched(`/runs/${runs.large.run_id}`)],
  ];
  console.log('| screen | visible after | the API answers in | ratio |\n|---|---|---|---|');
  for (const [name, screen, api] of rows) {
    const [seen, answered] = [await measure(screen), await measure(api)];
    console.log(`| ${name} | ${seen.toFixed(0)} ms | ${answered.toFixed(1)} ms | ${(seen / answered).toFixed(1)} |`);
  }
} finally {
  await browser.close();
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
}
