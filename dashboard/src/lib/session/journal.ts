import { counted } from '$lib/format/numbers';
import type { EventOf, EventType, JournalEvent, LadderRung, StoredReply } from '$lib/api/types';

/** Cuts quoted text in sentences; the details hold the complete value. */
function brief(value: string | null | undefined, length = 160): string {
  const words = (value ?? '').replace(/\s+/g, ' ').trim();
  return words.length > length ? `${words.slice(0, length - 1)}…` : words;
}

function attemptStarted(event: EventOf<'attempt_started'>): string {
  const backends = (event.ladder as LadderRung[]).map((rung) => rung.backend?.name).filter(Boolean);
  if (backends.length === 0) return 'a runner started the program';
  return `a runner started to execute the run on ${backends.join(', then ')}`;
}

function message(event: EventOf<'message'>): string {
  const reply = event.reply as StoredReply;
  const asked = event.asked ? ` (asked: ${event.asked})` : '';
  if (reply.tool_calls?.length) return `the model called ${reply.tool_calls.map((call) => call.name).join(', ')}${asked}`;
  const cut = reply.stop?.reason === 'length' ? ', cut off by the token limit' : '';
  return `the model replied with ${counted(event.content.length, 'character')}${cut}${asked}`;
}

function planCreated(event: EventOf<'plan_created'>): string {
  const subtasks = event.subtasks.map((subtask) => `${subtask.id} (${subtask.agent})`);
  return `plan ${event.round} has ${counted(subtasks.length, 'subtask')}: ${subtasks.join(', ')}`;
}

function runCompleted(event: EventOf<'run_completed'>): string {
  if (event.status === 'completed') return 'the run completed';
  if (event.status === 'stopped') return 'the run was stopped';
  return `the run failed with ${event.error?.type ?? 'an error'}: ${brief(event.error?.message)}`;
}

const SENTENCES: { [T in EventType]: (event: EventOf<T>) => string } = {
  run_start: (event) => `a caller ${event.type === 'resume_session' ? 'resumed the session' : 'requested a run'}: ${brief(event.input) || 'no prompt'}`,
  attempt_started: attemptStarted,
  tools_failed: (event) => `the agent's tools are unavailable: ${brief(event.error)}`,
  message,
  call_failed: ({ error }) => `the model call failed${error.status ? ` with status ${error.status}` : ''}: ${brief(error.message)}`,
  pre_tool: (event) => `${event.tool_name} started`,
  post_tool: (event) => (event.error ? `${event.tool_name} failed: ${brief(event.error)}` : `${event.tool_name} ended`),
  child_started: (event) => `child ${event.agent_name} started`,
  child_completed: (event) => `child ${event.agent_name} ended: ${event.status}`,
  paths_checked: (event) => `${counted(event.present.length, 'named file')} found, ${event.missing.length} missing`,
  plan_created: planCreated,
  clarity_scored: (event) => `round ${event.round}: clarity score ${event.score} of at least ${event.threshold}; ${event.consequence}`,
  validation_failed: (event) => `the reply violates the schema in ${counted(event.errors.length, 'place')}; ${event.consequence}`,
  escalated: (event) => `tier ${event.to} takes over from ${event.from}: ${brief(event.reason)}`,
  lease_expired: (event) => `the lease of attempt ${event.attempt} expired; the run returned to the queue`,
  deadline_reached: () => 'the run reached its time limit',
  stop_requested: () => 'a caller stopped the run',
  result: (event) => (event.result_data === null || event.result_data === undefined ? 'the run has a result' : 'the result satisfies the schema'),
  run_completed: runCompleted,
};

/** Describes an event in one sentence. A newer server may send types that this list lacks; they are named as they are. */
export function sentence(event: JournalEvent): string {
  const describe = SENTENCES[event.event_type] as ((event: JournalEvent) => string) | undefined;
  return describe?.(event) ?? String(event.event_type).replaceAll('_', ' ');
}

export type Tone = 'plain' | 'good' | 'bad' | 'accent';

export function tone(event: JournalEvent): Tone {
  switch (event.event_type) {
    case 'run_completed':
      return event.status === 'completed' ? 'good' : event.status === 'failed' ? 'bad' : 'plain';
    case 'result':
      return 'good';
    case 'call_failed':
    case 'tools_failed':
      return 'bad';
    case 'post_tool':
      return event.error ? 'bad' : 'plain';
    case 'validation_failed':
    case 'escalated':
    case 'clarity_scored':
      return 'accent';
    default:
      return 'plain';
  }
}

const COMMON = ['seq', 'session_id', 'run_id', 'timestamp', 'event_type'];

/** Returns the members of an event that its type adds. */
export function details(event: JournalEvent): [string, unknown][] {
  return Object.entries(event).filter(([name, value]) => !COMMON.includes(name) && value !== null && value !== undefined);
}
