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

let mayShow: (address: string) => boolean = () => true;
/** Index of the current entry, to return to it when the guard refuses another. */
let index = 0;
let isReturning = false;

/** Registers the guard that every change of the address asks. */
export function setGuard(guard: (address: string) => boolean): void {
  mayShow = guard;
}

/** Returns the current address with its query, as `navigate` takes it. */
export function address(): string {
  const query = router.query.toString();
  return router.path + (query ? `?${query}` : '');
}

/** What the router keeps with an entry of the browser's history. */
interface EntryState {
  /** Names the entry, for what screens keep in memory. */
  id?: string;
  /** Number of entries before this one. */
  index?: number;
  /** Number of entries since the last list. */
  sinceList?: number;
}
const entryState = (): EntryState => (history.state ?? {}) as EntryState;

let nextId: string | null = null;

/** Returns the id that the next entry will have. */
export function forNextEntry(): string {
  return (nextId ??= crypto.getRandomValues(new Uint32Array(2)).join('-'));
}

/** Returns the id of the current entry, and gives it one if it has none. */
export function entryId(): string {
  const state = entryState();
  if (state.id === undefined) {
    state.id = forNextEntry();
    nextId = null;
    history.replaceState(state, '', location.href);
  }
  return state.id;
}

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
  if (target === location.pathname + location.search + location.hash || !mayShow(path)) return;
  const before = router.path;
  const { sinceList } = entryState();
  if (replace) history.replaceState(history.state, '', target);
  else {
    const since = LISTS.includes(before) ? 1 : sinceList === undefined ? undefined : sinceList + 1;
    index += 1;
    const state: EntryState = { index, ...(since === undefined ? {} : { sinceList: since }), ...(nextId === null ? {} : { id: nextId }) };
    history.pushState(state, '', target);
    nextId = null;
  }
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
    const before = { path: router.path, query: router.query, hash: router.hash };
    const target = entryState().index ?? 0;
    read();
    if (isReturning) isReturning = false;
    else if (target !== index && !mayShow(address())) {
      Object.assign(router, before);
      isReturning = true;
      history.go(index - target);
    } else {
      index = target;
      returned = true;
      focusPending ||= router.path !== before.path;
    }
  });
  document.addEventListener('click', onClick);
  index = entryState().index ?? 0;
  history.replaceState({ ...entryState(), index }, '', location.href);
  read();
}
