import type { Agent } from '$lib/api/types';

export const AGENT_TYPES = ['autonomous', 'procedural', 'orchestrator'] as const;

/** Filters of the agent list, as they stand in the address of the page. */
export interface AgentFilters {
  /** Words that the name, title, description or path contains. */
  text: string;
  type: string;
}

/** A row of the list: an agent, or the heading of a group. */
export type AgentRow = { agent: Agent } | { group: string };

export function parseAgentFilters(query: URLSearchParams): AgentFilters {
  return { text: query.get('q') ?? '', type: AGENT_TYPES.find((type) => type === query.get('type')) ?? '' };
}

export function agentFilterQuery({ text, type }: AgentFilters): string {
  const query = new URLSearchParams({ ...(text ? { q: text } : {}), ...(type ? { type } : {}) }).toString();
  return query ? `?${query}` : '';
}

function matches(agent: Agent, words: string[], type: string): boolean {
  const text = [agent.name, agent.title, agent.description, agent.path].filter(Boolean).join(' ').toLowerCase();
  return words.every((word) => text.includes(word)) && (type === '' || (agent.type ?? 'autonomous') === type);
}

/** Returns the agents of the project that match, then those that come with Slipform under a heading. */
export function agentRows(agents: Agent[], { text, type }: AgentFilters): AgentRow[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = agents.filter((agent) => matches(agent, words, type));
  const rows = (shipped: boolean): AgentRow[] => found.filter((agent) => (agent.source === 'shipped') === shipped).map((agent) => ({ agent }));
  const shipped = rows(true);
  return [...rows(false), ...(shipped.length > 0 ? [{ group: 'Shipped with Slipform' }, ...shipped] : [])];
}
