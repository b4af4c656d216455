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

/** Screens to which Esc returns. */
const LISTS = ['/runs', '/gateway'];

/** What the router keeps with an entry of the browser's history. */
interface EntryState {
  /** Number of entries since the last list. */
  sinceList?: number;
}
const entryState = (): EntryState => (history.state ?? {}) as EntryState;

let returned = false;

/** Whether back or forward led to the current address. */
export function hasReturned(): boolean {
  return returned;
}

/** Goes back to the list that led here, or to the runs. */
export function leaveToList(): void {
  const { sinceList } = entryState();
  if (sinceList === undefined) navigate('/runs');
  else history.go(-sinceList);
}

export interface NavigateOptions {
  replace?: boolean;
}

export function navigate(path: string, { replace = false }: NavigateOptions = {}): void {
  const target = BASE + path;
  if (target === location.pathname + location.search + location.hash) return;
  const before = router.path;
  const { sinceList } = entryState();
  if (replace) history.replaceState(history.state, '', target);
  else if (LISTS.includes(before)) history.pushState({ sinceList: 1 } satisfies EntryState, '', target);
  else history.pushState(sinceList === undefined ? null : ({ sinceList: sinceList + 1 } satisfies EntryState), '', target);
  returned = false;
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
    returned = true;
    read();
    focusPending ||= router.path !== before;
  });
  document.addEventListener('click', onClick);
  read();
}
