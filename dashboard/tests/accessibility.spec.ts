import AxeBuilder from '@axe-core/playwright';
import type { Page } from '@playwright/test';
import { expect, test } from './support/fixtures';
import { expectedErrors, open, screens } from './screens';

test.use({ allowed: expectedErrors });

// Most of the time of all tests; the workers share it.
test.describe.configure({ mode: 'parallel' });

/** Rules that depend on colours. The others read the document, which is the same in both themes. */
const COLOR_RULES = ['color-contrast', 'link-in-text-block'];

async function violations(page: Page, rules?: string[]): Promise<string[]> {
  const builder = new AxeBuilder({ page });
  const found = await (rules ? builder.withRules(rules) : builder).analyze();
  return found.violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html).slice(0, 3).join(' | ')}`);
}

for (const screen of screens) {
  test(`axe finds nothing on ${screen.name} in both themes`, async ({ page, demo }) => {
    await page.emulateMedia({ colorScheme: 'light' });
    await open(page, screen, demo);
    expect(await violations(page), 'light theme').toEqual([]);
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await violations(page, COLOR_RULES), 'dark theme').toEqual([]);
  });
}
