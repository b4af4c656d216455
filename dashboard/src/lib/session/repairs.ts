import type { Repair } from '$lib/api/types';
import { jsonLine } from '$lib/json/exact';

/** The server lists this many repairs of a reply at most. */
export const REPAIRS_MAX = 1_000;

export function describeRepair(repair: Repair): string {
  const words = (repair.description || repair.kind.replaceAll('_', ' ')).replace(/\.$/, '');
  return words.charAt(0).toLowerCase() + words.slice(1);
}

/** Returns the values before and after, where the repair has them. */
export function repairChange(repair: Repair): { from: string; to: string } | null {
  const print = (value: unknown) => (value === undefined ? '' : jsonLine(value));
  const changed = repair.from !== null || repair.to !== null;
  return changed && print(repair.from) !== print(repair.to) ? { from: print(repair.from), to: print(repair.to) } : null;
}
