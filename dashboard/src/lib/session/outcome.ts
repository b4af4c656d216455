import type { Run } from '$lib/api/additions';
import { isActive } from '$lib/runs/verdict';

export interface SchemaOutcome {
  word: string;
  tone: 'good' | 'bad' | 'plain';
  detail: string;
}

const plural = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** Says how the accepted reply satisfied the schema. */
function accepted(run: Run): string {
  const receipt = run.receipt;
  if (!receipt) return '';
  if (receipt.calls === 0) return 'checked without a model call';
  const repairs = receipt.repairs.length > 0 ? ` after ${plural(receipt.repairs.length, 'repair')}` : '';
  if (receipt.calls === 1) return repairs ? `first reply accepted${repairs}` : 'first reply accepted as it was written';
  const tier = receipt.rungs.length > 1 ? ` on tier ${receipt.rungs.at(-1)?.tier}` : '';
  return `reply ${receipt.calls} of ${receipt.calls} accepted${repairs}${tier}`;
}

/** Returns the word after `Output Schema:`. */
export function schemaOutcome(run: Run): SchemaOutcome {
  if (!run.contract) return { word: 'none', tone: 'plain', detail: 'the result is text' };
  if (isActive(run.status)) return { word: 'not checked yet', tone: 'plain', detail: 'the run has not ended' };
  if (run.schema_validation?.valid && run.status === 'completed') return { word: 'Valid', tone: 'good', detail: accepted(run) };
  if (violationsOf(run).length > 0) return { word: 'Validation Failed', tone: 'bad', detail: '' };
  return { word: 'not checked', tone: 'plain', detail: 'no reply could be checked' };
}

export function violationsOf(run: Run): string[] {
  return run.error?.validation_errors ?? [];
}

/** Returns the words after `Retry attempts:`; null if the run has no retries. */
export function retryWords(run: Run): string | null {
  const max = run.schema_validation?.max_retries ?? run.max_retries;
  if (!run.contract || max === null || max === undefined || run.status !== 'failed') return null;
  return run.retry_count >= max ? `${run.retry_count}/${max} exhausted` : `${run.retry_count}/${max} used`;
}

const REASONS: Record<string, string> = {
  output_schema_validation_failed: 'the last reply does not satisfy the schema, and no retry is left',
  result_not_submitted: 'the model did not submit a result with `submit_result`',
  output_truncated: 'the reply reached the token limit before it was complete',
  refused: 'the model refused, or a content filter ended the reply',
  tool_failed: 'a program or tool ended with an error',
  tools_unavailable: 'a tool of the agent could not be started',
  timeout: 'the run reached its time limit',
  lost: 'the runner was lost three times while it executed the run',
  backend_unavailable: 'the backend could not be reached',
  backend_rejected: 'the backend refused the request',
  limit_exceeded: 'the run reached a limit of its agent',
};

/** Explains a failure type in a sentence. */
export function failureReason(type: string): string {
  return REASONS[type] ?? `the run ended with \`${type}\``;
}
