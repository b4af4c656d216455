import type { RunSummary } from '$lib/api/types';
import { counted } from '$lib/format/numbers';

export interface Chip {
  text: string;
  /** `quiet` is muted text without a background. */
  tone: 'plain' | 'good' | 'bad' | 'warn' | 'accent' | 'lossless' | 'quiet';
  icon: 'check' | 'wrench' | 'retry' | 'up' | 'fail' | null;
  title: string;
}

/** What runs and requests of the gateway have in common. */
export interface Outcome {
  status: string;
  verdict?: RunSummary['verdict'];
  retry_count: number;
  max_retries?: number | null;
  repairs?: number | null;
  error?: { type: string; message: string } | null;
}

export const ACTIVE = ['pending', 'claimed', 'running', 'waiting', 'stopping'];

export function isActive(status: string): boolean {
  return ACTIVE.includes(status);
}

/** Turns a failure type into words: `output_schema_validation_failed` becomes `schema validation failed`. */
export function failureWords(type: string): string {
  return type.replace(/^output_/, '').replaceAll('_', ' ');
}

function retries(run: Outcome): string {
  return run.max_retries ? `retry ${run.retry_count}/${run.max_retries}` : counted(run.retry_count, 'retry', 'retries');
}

function completed(run: Outcome): Chip {
  switch (run.verdict) {
    case 'first_pass':
      return { text: 'first pass', tone: 'good', icon: 'check', title: 'the first reply satisfied the schema as it was written' };
    case 'repaired':
      return { text: counted(run.repairs ?? 0, 'repair'), tone: 'lossless', icon: 'wrench', title: 'the first reply satisfied the schema after repairs' };
    case 'retried':
      return { text: retries(run), tone: 'accent', icon: 'retry', title: 'a later reply satisfied the schema' };
    case 'escalated':
      return { text: 'escalated', tone: 'accent', icon: 'up', title: 'a later tier satisfied the schema' };
    default:
      if (run.retry_count > 0) return { text: retries(run), tone: 'accent', icon: 'retry', title: 'a later reply was accepted' };
      return { text: 'no schema', tone: 'quiet', icon: null, title: 'the result did not have to satisfy a schema' };
  }
}

/** Returns the chip that says how a run came to its end, or what it does. */
export function verdictChip(run: Outcome): Chip {
  if (run.status === 'completed') return completed(run);
  if (run.status === 'failed' && run.error) {
    return { text: failureWords(run.error.type), tone: 'bad', icon: 'fail', title: run.error.message };
  }
  if (!isActive(run.status)) return { text: 'no result', tone: 'quiet', icon: null, title: 'the run ended before it had a result' };
  if (run.retry_count > 0) return { text: retries(run), tone: 'plain', icon: 'retry', title: 'retries so far' };
  return { text: '–', tone: 'quiet', icon: null, title: 'no result yet' };
}
