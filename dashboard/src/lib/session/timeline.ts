import type { JournalEvent, RunSummary } from '$lib/api/additions';

/** A bar of the tree: one run with its place on the shared time axis. */
export interface TreeRow {
  run: RunSummary;
  depth: number;
  label: string;
  note: string;
  start: number;
  end: number;
  marks: { at: number; text: string }[];
}

type Fields = Record<string, unknown>;
const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {});

/** Names of subtasks by child run: an orchestrator's call id is `ROUND.SUBTASK.ATTEMPT`. */
export function subtaskNames(events: JournalEvent[]): Map<string, string> {
  const names = new Map<string, string>();
  for (const event of events) {
    const match = event.event_type === 'child_started' ? /^(\d+)\.(.+)\.(\d+)$/.exec(String(event.call_id)) : null;
    if (match) names.set(String(event.child_run_id), match[3] === '1' ? (match[2] ?? '') : `${match[2]} (attempt ${match[3]})`);
  }
  return names;
}

export function descriptions(events: JournalEvent[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const event of events.filter((other) => other.event_type === 'plan_created')) {
    for (const subtask of Array.isArray(event.subtasks) ? event.subtasks.map(fields) : []) {
      const after = Array.isArray(subtask.dependencies) && subtask.dependencies.length > 0 ? `, after ${subtask.dependencies.join(', ')}` : '';
      texts.set(String(subtask.id), `${String(subtask.description).replace(/\.$/, '')}${after}`);
    }
  }
  return texts;
}

/** Returns plans and clarity scores as points in time. */
export function milestones(events: JournalEvent[], runId: string): { at: number; text: string }[] {
  return events
    .filter((event) => event.run_id === runId && ['plan_created', 'clarity_scored', 'escalated'].includes(event.event_type))
    .map((event) => ({ at: Date.parse(event.timestamp), text: milestone(event) }));
}

function milestone(event: JournalEvent): string {
  if (event.event_type === 'plan_created') return `plan ${String(event.round ?? 1)}`;
  if (event.event_type === 'escalated') return `tier ${String(event.to)}`;
  return `clarity ${String(event.score)} of ${String(event.threshold)}`;
}

export function endOf(run: RunSummary, now: number): number {
  return run.finished_at ? Date.parse(run.finished_at) : now;
}

export function startOf(run: RunSummary): number {
  return Date.parse(run.started_at ?? run.created_at);
}

/** Orders runs as a tree, children after their parent, by time. */
export function treeRows(root: RunSummary, children: Map<string, RunSummary[]>, events: JournalEvent[], now: number): TreeRow[] {
  const names = subtaskNames(events);
  const texts = descriptions(events);
  const rows: TreeRow[] = [];
  const visit = (run: RunSummary, depth: number): void => {
    const name = names.get(run.run_id);
    const subtask = name?.replace(/ \(attempt \d+\)$/, '') ?? '';
    rows.push({
      run,
      depth,
      label: name ? `${name} · ${run.agent_name}` : run.agent_name,
      note: texts.get(subtask) ?? '',
      start: startOf(run),
      end: endOf(run, now),
      marks: depth === 0 ? milestones(events, run.run_id) : [],
    });
    const below = [...(children.get(run.run_id) ?? [])].sort((a, b) => startOf(a) - startOf(b));
    for (const child of below) visit(child, depth + 1);
  };
  visit(root, 0);
  return rows;
}
