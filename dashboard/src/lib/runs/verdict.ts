import type { RunSummary } from '$lib/api/additions';

export interface Chip {
  text: string;
  tone: 'plain' | 'good' | 'bad' | 'warn' | 'accent' | 'lossless';
  icon: 'check' | 'wrench' | 'retry' | 'up' | 'fail' | null;
  title: string;
}

export const ACTIVE = ['pending', 'claimed', 'running', 'waiting', 'stopping'];

export function isActive(status: string): boolean {
  return ACTIVE.includes(status);
}

/** Turns a failure type into words: `output_schema_validation_failed` becomes `schema validation failed`. */
export function failureWords(type: string): string {
  return type.replace(/^output_/, '').replaceAll('_', ' ');
}

function retries(run: RunSummary): string {
  return run.max_retries ? `retry ${run.retry_count}/${run.max_retries}` : `${run.retry_count} ${run.retry_count === 1 ? 'retry' : 'retries'}`;
}

function completed(run: RunSummary): Chip | null {
  const repairs = run.repairs ?? 0;
  const repaired = `${repairs} ${repairs === 1 ? 'repair' : 'repairs'}`;
  switch (run.verdict) {
    case 'first_pass':
      return { text: 'first pass', tone: 'good', icon: 'check', title: 'the first reply satisfied the schema' };
    case 'repaired':
      return { text: repaired, tone: 'lossless', icon: 'wrench', title: 'the reply satisfied the schema after repairs' };
    case 'retried':
      return { text: retries(run), tone: 'accent', icon: 'retry', title: 'a later reply satisfied the schema' };
    case 'escalated':
      return { text: 'escalated', tone: 'accent', icon: 'up', title: 'a later tier satisfied the schema' };
    default:
      return run.retry_count > 0 ? { text: retries(run), tone: 'accent', icon: 'retry', title: 'a later reply was accepted' } : null;
  }
}

/** Returns the chip that says how a run came to its end, or what it does; null if there is nothing to say. */
export function verdictChip(run: RunSummary): Chip | null {
  if (run.status === 'completed') return completed(run);
  if (run.status === 'failed' && run.error) {
    return { text: failureWords(run.error.type), tone: 'bad', icon: 'fail', title: run.error.message };
  }
  if (isActive(run.status) && run.retry_count > 0) return { text: retries(run), tone: 'plain', icon: 'retry', title: 'retries so far' };
  return null;
}
