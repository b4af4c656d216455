/** Copies a text. Over plain HTTP browsers offer no clipboard, except for a copy of what a person has selected. */
export async function copyText(text: string, near: HTMLElement): Promise<void> {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard) return clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  area.readOnly = true;
  area.className = 'visually-hidden';
  // A dialog takes the focus away from elements outside of it.
  (near.parentElement ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  near.focus();
  if (!isCopied) throw new Error('the browser refuses to copy');
}
