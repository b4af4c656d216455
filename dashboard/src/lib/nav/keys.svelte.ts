import { navigate } from './router.svelte';

/** Actions of the current screen for the shared shortcuts. */
export interface ScreenKeys {
  next?: () => void;
  previous?: () => void;
  filter?: () => void;
  jump?: () => void;
  escape?: () => void;
}

let screen: ScreenKeys = {};
let prefix = false;
let timer: ReturnType<typeof setTimeout> | undefined;

export const help = $state({ open: false });
/** The navigation of narrow screens. */
export const menu = $state({ open: false });

const GO: Record<string, string> = { r: '/runs', g: '/gateway', a: '/agents', s: '/schemas', n: '/runs/new', c: '/check', t: '/stats', y: '/system' };
export const SHORTCUTS: [string, string][] = [
  ['/', 'focus the filter, on screens that have one'],
  ['d', 'jump to a date'],
  ['j', 'next row'],
  ['k', 'previous row'],
  ['Enter', 'open the row'],
  ['g r', 'go to runs'],
  ['g g', 'go to the gateway'],
  ['g a', 'go to agents'],
  ['g s', 'go to schemas'],
  ['g n', 'start a run'],
  ['g c', 'go to check'],
  ['g t', 'go to statistics'],
  ['g y', 'go to system'],
  ['?', 'show the shortcuts'],
  ['Esc', 'close, leave the filter, or go back to the list'],
];

/** Registers the actions of a screen; returns the function that removes them. */
export function useKeys(keys: ScreenKeys): () => void {
  screen = keys;
  return () => {
    if (screen === keys) screen = {};
  };
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.shadowRoot !== null || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName);
}

function go(key: string): boolean {
  const target = GO[key];
  if (target) navigate(target);
  return target !== undefined;
}

function act(key: string): boolean {
  const actions: Record<string, (() => void) | undefined> = {
    j: screen.next,
    k: screen.previous,
    d: screen.jump,
    '/': screen.filter,
    '?': () => (help.open = true),
    Escape: menu.open ? () => (menu.open = false) : screen.escape,
  };
  actions[key]?.();
  return actions[key] !== undefined;
}

export function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector('dialog[open]')) return;
  if (isTyping(event.target)) {
    if (event.key === 'Escape' && event.target instanceof HTMLElement && !event.target.shadowRoot) event.target.blur();
    return;
  }
  const handled = prefix ? go(event.key) : act(event.key);
  clearTimeout(timer);
  prefix = !prefix && event.key === 'g';
  if (prefix) timer = setTimeout(() => (prefix = false), 1_500);
  if (handled) event.preventDefault();
}
