import type { JournalEvent } from '$lib/api/additions';

type Fields = Record<string, unknown>;
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {});
const counted = (count: number, one: string, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** Cuts quoted text in sentences; the details hold the complete value. */
function brief(value: unknown, length = 160): string {
  const words = text(value).replace(/\s+/g, ' ').trim();
  return words.length > length ? `${words.slice(0, length - 1)}…` : words;
}

function ladder(event: JournalEvent): string {
  const rungs = list(event.ladder).map((rung) => text(fields(fields(rung).backend).name)).filter(Boolean);
  if (rungs.length === 0) return 'a runner started the program';
  return `a runner started to execute the run on ${rungs.join(', then ')}`;
}

function message(event: JournalEvent): string {
  const reply = fields(event.reply);
  const calls = list(reply.tool_calls).map((call) => text(fields(call).name));
  const asked = event.asked ? ` (asked: ${text(event.asked)})` : '';
  if (calls.length > 0) return `the model called ${calls.join(', ')}${asked}`;
  const stop = text(fields(reply.stop).reason);
  const cut = stop === 'length' || stop === 'truncated' ? ', cut off by the token limit' : '';
  return `the model replied with ${counted(text(event.content).length, 'character')}${cut}${asked}`;
}

function plan(event: JournalEvent): string {
  const subtasks = list(event.subtasks).map((subtask) => `${text(fields(subtask).id)} (${text(fields(subtask).agent)})`);
  return `plan ${String(event.round ?? 1)} has ${counted(subtasks.length, 'subtask')}: ${subtasks.join(', ')}`;
}

function clarity(event: JournalEvent): string {
  return `round ${String(event.round)}: clarity score ${String(event.score)} of at least ${String(event.threshold)}; ${text(event.consequence)}`;
}

function completed(event: JournalEvent): string {
  const error = fields(event.error);
  if (event.status === 'completed') return 'the run completed';
  if (event.status === 'stopped') return 'the run was stopped';
  return `the run failed with ${text(error.type)}: ${brief(error.message)}`;
}

function callFailed(event: JournalEvent): string {
  const error = fields(event.error);
  const status = error.status ? ` with status ${String(error.status)}` : '';
  return `the model call failed${status}: ${brief(error.message)}`;
}

const SENTENCES: Record<string, (event: JournalEvent) => string> = {
  run_start: (event) => `a caller ${event.type === 'resume_session' ? 'resumed the session' : 'requested a run'}: ${brief(event.input) || 'no prompt'}`,
  attempt_started: ladder,
  tools_failed: (event) => `the agent's tools are unavailable: ${brief(fields(event.error).message ?? event.error)}`,
  message,
  call_failed: callFailed,
  pre_tool: (event) => `${text(event.tool_name)} started`,
  post_tool: (event) => (event.error ? `${text(event.tool_name)} failed: ${brief(event.error)}` : `${text(event.tool_name)} ended`),
  child_started: (event) => `child ${text(event.agent_name)} started`,
  child_completed: (event) => `child ${text(event.agent_name)} ended: ${text(event.status)}`,
  paths_checked: (event) => `${counted(list(event.present).length, 'named file')} found, ${list(event.missing).length} missing`,
  plan_created: plan,
  clarity_scored: clarity,
  validation_failed: (event) => `the reply violates the schema in ${counted(list(event.errors).length, 'place')}; ${text(event.consequence)}`,
  escalated: (event) => `tier ${text(event.to)} takes over from ${text(event.from)}: ${brief(event.reason)}`,
  lease_expired: (event) => `the lease of attempt ${String(event.attempt)} expired; the run returned to the queue`,
  deadline_reached: () => 'the run reached its time limit',
  stop_requested: () => 'a caller stopped the run',
  result: (event) => (event.result_data === null || event.result_data === undefined ? 'the run has a result' : 'the result satisfies the schema'),
  run_completed: completed,
};

/** Describes an event in one sentence. Unknown types are named as they are. */
export function sentence(event: JournalEvent): string {
  return SENTENCES[event.event_type]?.(event) ?? String(event.event_type).replaceAll('_', ' ');
}

export type Tone = 'plain' | 'good' | 'bad' | 'accent';

export function tone(event: JournalEvent): Tone {
  if (event.event_type === 'run_completed') return event.status === 'completed' ? 'good' : event.status === 'failed' ? 'bad' : 'plain';
  if (event.event_type === 'result') return 'good';
  if (event.event_type === 'call_failed' || event.event_type === 'tools_failed') return 'bad';
  if (event.event_type === 'post_tool' && event.error) return 'bad';
  if (['validation_failed', 'escalated', 'clarity_scored'].includes(event.event_type)) return 'accent';
  return 'plain';
}

const COMMON = ['seq', 'session_id', 'run_id', 'timestamp', 'event_type'];

/** Returns the members of an event that its type adds. */
export function details(event: JournalEvent): [string, unknown][] {
  return Object.entries(event).filter(([name, value]) => !COMMON.includes(name) && value !== null && value !== undefined);
}
