import type { Locator } from '@playwright/test';

/** Replaces the text of an editor as a person does. `fill` would leave inline styles behind, which the policy blocks. */
export async function replaceText(editor: Locator, text: string): Promise<void> {
  await editor.focus();
  await editor.press('ControlOrMeta+a');
  await editor.press('Delete');
  await editor.page().keyboard.insertText(text);
}
