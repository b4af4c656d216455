import type { Call, JournalEvent } from '$lib/api/additions';

type Fields = Record<string, unknown>;
const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {});
const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);

interface Rung {
  tier: string | null;
  backend: string | null;
}

function rungsOf(event: JournalEvent): Rung[] {
  const ladder = Array.isArray(event.ladder) ? event.ladder : [];
  return ladder.map((rung) => ({ tier: text(fields(rung).tier), backend: text(fields(fields(rung).backend).name) }));
}

function toolCalls(reply: Fields): { id: string; name: string; arguments: unknown }[] {
  const calls = Array.isArray(reply.tool_calls) ? reply.tool_calls : [];
  return calls.map(fields).map((call) => ({ id: text(call.id) ?? '', name: text(call.name) ?? '', arguments: call.arguments }));
}

function base(event: JournalEvent, number: number, rung: Rung | undefined): Call {
  return {
    seq: event.seq,
    number,
    timestamp: event.timestamp,
    tier: rung?.tier ?? null,
    backend: rung?.backend ?? null,
    model: text(fields(event.reply).model),
    asked: text(event.asked),
    request: null,
    reply: null,
    error: null,
    source: null,
    source_text: null,
    extraction: null,
    violations: [],
    outcome: 'continued',
    consequence: null,
    correction: null,
  };
}

function replied(event: JournalEvent, number: number, rung: Rung | undefined): Call {
  const reply = fields(event.reply);
  const calls = toolCalls(reply);
  const content = text(event.content) || text(reply.text) || '';
  const submitted = calls.find((call) => call.name === 'submit_result');
  const sourceText = submitted ? (text(submitted.arguments) ?? JSON.stringify(submitted.arguments)) : content;
  return {
    ...base(event, number, rung),
    reply: {
      text: content,
      reasoning: text(reply.reasoning),
      tool_calls: calls,
      stop_reason: text(fields(reply.stop).reason),
      usage: reply.usage ? fields(reply.usage) : null,
    },
    source: submitted ? 'submit_result' : calls.length > 0 ? null : 'text',
    source_text: submitted || calls.length === 0 ? sourceText : null,
  };
}

function failed(event: JournalEvent, number: number, rung: Rung | undefined): Call {
  const error = fields(event.error);
  const status = typeof error.status === 'number' ? error.status : null;
  return { ...base(event, number, rung), outcome: 'failed', error: { kind: text(error.kind) ?? 'error', status, message: text(error.message) ?? '' } };
}

function reject(call: Call | undefined, event: JournalEvent): void {
  if (!call) return;
  call.outcome = 'rejected';
  call.violations = Array.isArray(event.errors) ? event.errors.map(String) : [String(event.reason ?? '')];
  call.consequence = event.event_type === 'escalated' ? `tier ${String(event.to)} takes over` : text(event.consequence);
  call.correction = text(event.correction);
}

/** Derives the calls of a run from its journal, for servers without `/runs/{run_id}/calls`. */
export function callsFromJournal(events: JournalEvent[], runId: string): Call[] {
  const calls: Call[] = [];
  let rungs: Rung[] = [];
  let rung = 0;
  for (const event of events.filter((other) => other.run_id === runId)) {
    if (event.event_type === 'attempt_started') rungs = rungsOf(event);
    else if (event.event_type === 'message' && event.role === 'assistant') calls.push(replied(event, calls.length + 1, rungs[rung]));
    else if (event.event_type === 'call_failed') calls.push(failed(event, calls.length + 1, rungs[rung]));
    else if (event.event_type === 'validation_failed') reject(calls.at(-1), event);
    else if (event.event_type === 'escalated') {
      rung = Math.max(rung + 1, rungs.findIndex((other) => other.tier === event.to));
      if (calls.at(-1)?.outcome === 'continued') reject(calls.at(-1), event);
    } else if (event.event_type === 'result') {
      const last = calls.at(-1);
      if (last && last.outcome === 'continued') last.outcome = 'accepted';
    }
  }
  return calls;
}

const ESCALATED = /^escalated to ([^:]+): (\$.*)$/s;

/** Shows a reply that led to the next tier as rejected, with the violation that the consequence names. */
export function withEscalation(call: Call): Call {
  const match = call.outcome === 'continued' ? ESCALATED.exec(call.consequence ?? '') : null;
  if (!match) return call;
  const violations = call.violations.length > 0 ? call.violations : [match[2] ?? ''];
  return { ...call, outcome: 'rejected', violations, consequence: `tier ${match[1]} takes over` };
}
