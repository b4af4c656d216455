import AxeBuilder from '@axe-core/playwright';
import { expect, test } from './support/fixtures';
import { open, screens } from './screens';

// Most of the time of all tests; the workers share it.
test.describe.configure({ mode: 'parallel' });

for (const colorScheme of ['light', 'dark'] as const) {
  for (const screen of screens) {
    test(`axe finds nothing on ${screen.name} in the ${colorScheme} theme`, async ({ page, demo }) => {
      await page.emulateMedia({ colorScheme });
      await open(page, screen, demo);
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html).slice(0, 3).join(' | ')}`)).toEqual([]);
    });
  }
}
