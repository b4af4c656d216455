import { tick, untrack } from 'svelte';
import { hasReturned } from '$lib/nav/router.svelte';
import type { LoadedRows } from './cursor.svelte';

/** Lists beyond this number are read again. One list may hold 100,000 rows. */
const KEPT_MAX = 4;

interface Kept {
  loaded: LoadedRows<unknown>;
  scrollTop: number;
  selected: number;
}
/** Lists by address, the one that was left last at the end. */
const lists = new Map<string, Kept>();

/** Where a reader stands in a list, kept by address in memory so that back and forward show the list as it was left. */
export class ListPlace<T> {
  scrollTop = $state(0);
  /** Index of the selected row; -1 without one. */
  selected = $state(-1);
  private address: string;

  /** `read` returns what the list has loaded. */
  constructor(
    address: string,
    private readonly read: () => LoadedRows<T> | null,
  ) {
    this.address = address;
  }

  /** Returns to an address: takes the place there, and returns its rows. Only back and forward lead to kept rows. */
  enter(address = this.address): LoadedRows<T> | null {
    this.address = address;
    const kept = hasReturned() ? lists.get(address) : undefined;
    this.scrollTop = kept?.scrollTop ?? 0;
    this.selected = kept?.selected ?? -1;
    // Lists of one address have rows of one type.
    return (kept?.loaded as LoadedRows<T> | undefined) ?? null;
  }

  /** Scrolls the rows to the place once they are on the page. */
  async restore(view: () => { restore: (scrollTop: number, selected: number) => Promise<void> } | null): Promise<void> {
    const [scrollTop, selected] = untrack(() => [this.scrollTop, this.selected] as const);
    await tick();
    await view()?.restore(scrollTop, selected);
  }

  /** Keeps the place and the rows for a return. */
  leave(): void {
    const loaded = untrack(this.read);
    lists.delete(this.address);
    if (loaded) lists.set(this.address, untrack(() => ({ loaded, scrollTop: this.scrollTop, selected: this.selected })));
    for (const address of [...lists.keys()].slice(0, -KEPT_MAX)) lists.delete(address);
  }
}
