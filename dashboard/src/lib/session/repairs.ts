import type { Repair } from '$lib/api/additions';

/** Repairs that cannot alter the data. A server that names the class itself takes precedence. */
const LOSSLESS = new Set(
  (
    'text_removed document_chosen documents_listed document_unescaped comment_removed comma_added comma_removed colon_added quotes_changed ' +
    'key_quoted literal_changed tuple_changed control_escaped quote_escaped escape_changed number_changed strings_joined space_removed ' +
    'bracket_added repeat_removed null_omitted'
  ).split(' '),
);

export function isLossless(repair: Repair): boolean {
  return repair.lossless ?? LOSSLESS.has(repair.kind);
}

export function describeRepair(repair: Repair): string {
  const words = (repair.description ?? repair.kind.replaceAll('_', ' ')).replace(/\.$/, '');
  return words.charAt(0).toLowerCase() + words.slice(1);
}

/** Returns the values before and after, where the repair has them. */
export function repairChange(repair: Repair): { from: string; to: string } | null {
  const print = (value: unknown) => (value === undefined ? '' : JSON.stringify(value));
  const changed = repair.from !== null || repair.to !== null;
  return changed && print(repair.from) !== print(repair.to) ? { from: print(repair.from), to: print(repair.to) } : null;
}
