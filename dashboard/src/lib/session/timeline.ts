import type { JournalEvent, RunSummary } from '$lib/api/types';

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

interface Subtask {
  name: string;
  description: string;
}

/** Returns the subtasks by child run. An orchestrator's call id is `ROUND.SUBTASK.ATTEMPT`; a later plan may use an id again. */
export function subtasks(events: readonly JournalEvent[]): Map<string, Subtask> {
  const found = new Map<string, Subtask>();
  const described = descriptions(events);
  const rounds = new Map<string, number>();
  for (const event of events) if (event.event_type === 'plan_created') rounds.set(event.run_id, event.round);
  for (const event of events) {
    const match = event.event_type === 'child_started' ? /^(\d+)\.(.+)\.(\d+)$/.exec(event.call_id) : null;
    if (event.event_type !== 'child_started' || !match) continue;
    const [, round = '', id = '', attempt = ''] = match;
    const notes = [...((rounds.get(event.run_id) ?? 1) > 1 ? [`round ${round}`] : []), ...(attempt === '1' ? [] : [`attempt ${attempt}`])];
    found.set(event.child_run_id, { name: notes.length > 0 ? `${id} (${notes.join(', ')})` : id, description: described.get(`${event.run_id} ${round}.${id}`) ?? '' });
  }
  return found;
}

/** Returns the words of plans by run, round and subtask. */
function descriptions(events: readonly JournalEvent[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const event of events) {
    if (event.event_type !== 'plan_created') continue;
    for (const subtask of event.subtasks) {
      const after = subtask.dependencies?.length ? `, after ${subtask.dependencies.join(', ')}` : '';
      texts.set(`${event.run_id} ${event.round}.${subtask.id}`, `${subtask.description.replace(/\.$/, '')}${after}`);
    }
  }
  return texts;
}

/** Returns plans and clarity scores as points in time. */
export function milestones(events: readonly JournalEvent[], runId: string): { at: number; text: string }[] {
  return events.flatMap((event) => {
    const text = event.run_id === runId ? milestone(event) : null;
    return text === null ? [] : [{ at: Date.parse(event.timestamp), text }];
  });
}

function milestone(event: JournalEvent): string | null {
  if (event.event_type === 'plan_created') return `plan ${event.round}`;
  if (event.event_type === 'escalated') return `tier ${event.to}`;
  return event.event_type === 'clarity_scored' ? `clarity ${event.score} of ${event.threshold}` : null;
}

export function endOf(run: RunSummary, now: number): number {
  return run.finished_at ? Date.parse(run.finished_at) : Math.max(now, startOf(run));
}

export function startOf(run: RunSummary): number {
  return Date.parse(run.started_at ?? run.created_at);
}

/** Orders runs as a tree, children after their parent, by time. */
export function treeRows(root: RunSummary, children: Map<string, RunSummary[]>, events: readonly JournalEvent[], now: number): TreeRow[] {
  const tasks = subtasks(events);
  const rows: TreeRow[] = [];
  const visit = (run: RunSummary, depth: number): void => {
    const task = tasks.get(run.run_id);
    rows.push({
      run,
      depth,
      label: task ? `${task.name} · ${run.agent_name}` : run.agent_name,
      note: task?.description ?? '',
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
