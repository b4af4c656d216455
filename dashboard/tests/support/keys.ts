import { expect, type Locator, type Page } from '@playwright/test';

/** Longer than the time within which the second key of a shortcut counts, so that a repetition starts afresh. */
const SHORTCUT_MS = 2_000;

/** Presses the keys of a shortcut until an element is visible; on a slow machine the second key can come too late. */
export async function pressShortcut(page: Page, keys: string, shown: Locator): Promise<void> {
  await expect(async () => {
    for (const key of keys) await page.keyboard.press(key);
    await expect(shown).toBeVisible({ timeout: SHORTCUT_MS });
  }).toPass();
}
