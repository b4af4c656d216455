import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from './support/fixtures';
import { expectedErrors, open, screens } from './screens';

test.use({ allowed: expectedErrors });

const folder = process.env.SLIPFORM_SCREENSHOTS ?? fileURLToPath(new URL('../../target/screenshots', import.meta.url));
const sizes = { desktop: { width: 1280, height: 860 }, phone: { width: 390, height: 844 } };

for (const colorScheme of ['light', 'dark'] as const) {
  for (const [device, size] of Object.entries(sizes)) {
    test(`every screen fits a ${device} in the ${colorScheme} theme`, async ({ page, demo }) => {
      test.setTimeout(300_000);
      mkdirSync(folder, { recursive: true });
      await page.emulateMedia({ colorScheme });
      for (const screen of screens) {
        await page.setViewportSize(size);
        await open(page, screen, demo);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (overflow > 0) throw new Error(`${screen.name} is ${overflow} px too wide`);
        const height = await page.evaluate(() => document.querySelector('main')?.scrollHeight ?? 0);
        await page.setViewportSize({ width: size.width, height: Math.min(2_400, Math.max(size.height, height + (device === 'phone' ? 56 : 0))) });
        await page.screenshot({ path: `${folder}/${screen.name}-${device}-${colorScheme}.png` });
      }
    });
  }
}
