import { tick } from 'svelte';

export const BASE = '/ui';

/** The current address without the base path. Screens read it and never touch `location`. */
export const router = $state({ path: '/', query: new URLSearchParams(), hash: '' });

function read(): void {
  const path = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : location.pathname;
  router.path = path.replace(/\/+$/, '') || '/';
  router.query = new URLSearchParams(location.search);
  router.hash = location.hash;
}

/** Returns the address of a screen for links. */
export function href(path: string): string {
  return BASE + path;
}

export interface NavigateOptions {
  replace?: boolean;
}

export function navigate(path: string, { replace = false }: NavigateOptions = {}): void {
  const target = BASE + path;
  if (target === location.pathname + location.search + location.hash) return;
  const before = router.path;
  if (replace) history.replaceState(null, '', target);
  else history.pushState(null, '', target);
  read();
  focusPending ||= router.path !== before && !replace;
}

let focusPending = false;

/** Moves focus to the heading of a new screen, so that keyboards and screen readers start there. */
export async function focusNewHeading(): Promise<void> {
  if (!focusPending) return;
  focusPending = false;
  await tick();
  const heading = document.querySelector<HTMLElement>('main h1');
  const active = document.activeElement;
  if (active instanceof HTMLElement && active.closest('main') && ['INPUT', 'SELECT', 'TEXTAREA'].includes(active.tagName)) return;
  (heading ?? document.querySelector<HTMLElement>('main'))?.focus({ preventScroll: true });
}

function onClick(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(`${BASE}/`)) return;
  // A link within the page moves focus, which only the browser does.
  if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
  event.preventDefault();
  navigate(link.pathname.slice(BASE.length) + link.search + link.hash);
}

export function startRouter(): void {
  addEventListener('popstate', () => {
    const before = router.path;
    read();
    focusPending ||= router.path !== before;
  });
  document.addEventListener('click', onClick);
  read();
}
