import type { Schemas } from '$lib/api/client';
import { entryId, forNextEntry } from '$lib/nav/router.svelte';

/** What the check screen holds. */
export interface Playground {
  text: string;
  schema: string;
  /** Options of the run whose reply is checked; the screen checks both modes. */
  options: Schemas['OutputSchemaOptions'];
}

/** Replies have megabytes, so older entries are dropped. */
const KEPT_MAX = 6;

/** By entry of the browser's history, so that back and forward show what was there. */
const kept = new Map<string, Playground>();

export function keep(id: string, playground: Playground): void {
  kept.delete(id);
  kept.set(id, playground);
  for (const oldest of [...kept.keys()].slice(0, -KEPT_MAX)) kept.delete(oldest);
}

/** Hands text and schema to the check screen, which the caller opens next. */
export function handOver(playground: Playground): void {
  keep(forNextEntry(), playground);
}

/** Returns what the check screen holds at the current entry of the history. */
export function playgroundHere(): Playground | null {
  return kept.get(entryId()) ?? null;
}
