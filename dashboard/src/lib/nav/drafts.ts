/** What a person has typed and not sent. */
interface Draft {
  /** Address of its screen, or the start of the addresses of its tabs. */
  scope: string;
  value: unknown;
  /** Whether leaving the screen needs a confirmation. */
  asks: boolean;
}

/** Drafts by scope and part. They stay in memory while their screen is open, across its tabs and the login. */
const drafts = new Map<string, Draft>();
const keyOf = (scope: string, part: string) => `${scope} ${part}`;

/** Returns a draft; the fallback without one. */
export function draftOf<T>(scope: string, part: string, fallback: T): T {
  return (drafts.get(keyOf(scope, part))?.value as T | undefined) ?? fallback;
}

export function hasDraft(scope: string, part: string): boolean {
  return drafts.has(keyOf(scope, part));
}

/** Keeps a draft. Leaving its screen asks first if `asks`. */
export function keepDraft(scope: string, part: string, value: unknown, asks = true): void {
  drafts.set(keyOf(scope, part), { scope, value, asks });
}

export function dropDraft(scope: string, part: string): void {
  drafts.delete(keyOf(scope, part));
}

/** Drops the drafts of a screen, for example after its object was deleted. */
export function dropDrafts(scope: string): void {
  for (const [key, draft] of drafts) if (draft.scope === scope) drafts.delete(key);
}

const isWithin = (scope: string, address: string) => address === scope || address.startsWith(`${scope}/`) || address.startsWith(`${scope}?`);

/** Says whether the page may show another address. Drafts that are left behind are dropped; the login leaves none behind. */
export function mayShow(address: string, confirm: (question: string) => boolean): boolean {
  if (isWithin('/login', address)) return true;
  const left = [...drafts].filter(([, draft]) => !isWithin(draft.scope, address));
  if (left.some(([, draft]) => draft.asks) && !confirm('Leave without saving? Your changes are lost.')) return false;
  for (const [key] of left) drafts.delete(key);
  return true;
}

/** Whether closing the page would lose changes. */
export function hasUnsaved(): boolean {
  return [...drafts.values()].some((draft) => draft.asks);
}
