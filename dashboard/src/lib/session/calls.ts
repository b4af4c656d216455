import type { Call } from '$lib/api/types';

const ESCALATED = /^escalated to ([^:]+): (\$.*)$/s;

/** Shows a reply that led to the next tier as rejected, with the violation that the consequence names. */
export function withEscalation(call: Call): Call {
  const match = call.outcome === 'continued' ? ESCALATED.exec(call.consequence ?? '') : null;
  if (!match) return call;
  const violations = call.violations.length > 0 ? call.violations : [match[2] ?? ''];
  return { ...call, outcome: 'rejected', violations, consequence: `tier ${match[1]} takes over` };
}
