import type { FailureType, Run } from '$lib/api/types';
import { counted } from '$lib/format/numbers';
import { isActive } from '$lib/runs/verdict';

export interface SchemaOutcome {
  word: string;
  tone: 'good' | 'bad' | 'plain';
  detail: string;
}

/** Says how the accepted reply satisfied the schema. */
function accepted(run: Run): string {
  const receipt = run.receipt;
  if (!receipt) return '';
  if (receipt.calls === 0) return 'checked without a model call';
  const repairs = receipt.repairs.length > 0 ? ` after ${counted(receipt.repairs.length, 'repair')}` : '';
  if (receipt.calls === 1) return repairs ? `first reply accepted${repairs}` : 'first reply accepted as it was written';
  const tier = receipt.rungs.length > 1 ? ` on tier ${receipt.rungs.at(-1)?.tier}` : '';
  const isFirst = receipt.retries === 0 && receipt.rungs.length <= 1;
  if (isFirst) return `first result accepted${repairs || ' as it was written'} in ${receipt.calls} calls`;
  return `reply ${receipt.calls} of ${receipt.calls} accepted${repairs}${tier}`;
}

/** Returns the word after `Output Schema:`. */
export function schemaOutcome(run: Run): SchemaOutcome {
  if (!run.contract) return { word: 'none', tone: 'plain', detail: run.status === 'completed' ? 'the result is text' : '' };
  if (isActive(run.status)) return { word: 'not checked yet', tone: 'plain', detail: 'the run has not ended' };
  if (run.schema_validation?.valid && run.status === 'completed') return { word: 'Valid', tone: 'good', detail: accepted(run) };
  if (violationsOf(run).length > 0) return { word: 'Validation Failed', tone: 'bad', detail: '' };
  return { word: 'not checked', tone: 'plain', detail: 'no reply could be checked' };
}

/** What an ended run has produced: JSON for its contract, a text, or nothing. */
export type ResultKind = 'data' | 'text' | 'none';

/** Says what a run has produced. The JSON may be null, so that only the contract and its validation tell. */
export function resultKind(run: Run): ResultKind {
  if (run.status !== 'completed') return 'none';
  if ((run.contract && run.schema_validation?.valid) || (run.result_data ?? null) !== null) return 'data';
  return typeof run.result_text === 'string' ? 'text' : 'none';
}

export function violationsOf(run: Run): string[] {
  return run.error?.validation_errors ?? [];
}

/** Returns the words after `Retry attempts:`, used of allowed; null for runs without a contract, or without retries and failure. */
export function retryWords(run: Run): string | null {
  const perTier = run.schema_validation?.max_retries ?? run.max_retries;
  if (!run.contract || perTier === null || perTier === undefined || (run.retry_count === 0 && run.status !== 'failed')) return null;
  const allowed = perTier * Math.max(1, run.receipt?.rungs?.length ?? 1);
  if (run.retry_count > allowed) return `${run.retry_count}, ${perTier} per tier`;
  const isExhausted = run.status === 'failed' && run.retry_count === allowed && (violationsOf(run).length > 0 || run.error?.type === 'output_schema_validation_failed');
  return `${run.retry_count}/${allowed}${isExhausted ? ' exhausted' : ''}`;
}

/** Why runs fail with a type, and what to try next. */
const FAILURES: Record<FailureType, [reason: string, advice: string]> = {
  output_schema_validation_failed: ['the last reply does not satisfy the schema, and no retry is left', 'Try lenient mode, more retries, or a larger model.'],
  result_not_submitted: ['the model did not submit a result with `submit_result`', 'Choose another strategy, or a model that calls tools reliably.'],
  output_truncated: ['the reply reached the token limit before it was complete', 'Raise `limits.max_tokens` of the agent, or ask for less.'],
  refused: ['the model refused, or a content filter ended the reply', 'Change the prompt, or use another backend.'],
  empty_reply: ['the model replied with nothing', 'Run it again, or use another backend.'],
  backend_unavailable: ['the backend could not be reached', 'Check its address and key in `slipform.toml`, then run it again.'],
  backend_rejected: ['the backend refused the request', 'The message above is the answer of the backend. Check the key and the name of the model.'],
  tool_failed: ['a program or tool ended with an error', 'The journal shows its output.'],
  limit_exceeded: ['the run reached a limit of its agent', 'Raise `limits` of the agent, or ask for less.'],
  timeout: ['the run reached its time limit', 'Raise `limits.timeout_seconds` of the agent, or ask for less.'],
  lost: ['the runner was lost three times while it executed the run', 'Check the log of the runner for crashes, then run it again.'],
  stopped: ['a caller stopped the run', 'Run it again when you need the result.'],
};

/** Says in sentences why a run failed, and what to try next. Words in backticks are code. */
export function explanation(type: FailureType): string {
  const [reason, advice] = FAILURES[type] ?? ['the run failed', ''];
  return `${reason[0]?.toUpperCase()}${reason.slice(1)} (\`${type}\`). ${advice}`.trim();
}

/** All failure types, in the order of the documentation. */
export const FAILURE_TYPES = Object.keys(FAILURES) as FailureType[];
