import type { CommandLines } from '$lib/command/lines';

/** What the editors of an agent need to save it. */
export interface Saving {
  /** Address of the agent's screen, for drafts. */
  scope: string;
  save: (patch: Record<string, unknown>) => Promise<void>;
  /** Returns the request that saves a patch, for a terminal. */
  lines: (patch: Record<string, unknown>) => CommandLines;
}
