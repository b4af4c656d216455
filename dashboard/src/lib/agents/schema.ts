import type { Agent } from '$lib/api/types';

type Schemas = Pick<Agent, 'output_schema' | 'output_schema_name' | 'default_output_schema' | 'default_output_schema_name' | 'default_output_schema_options'>;

/** How an agent defines the schema of its results. */
export interface OutputSchema {
  /** Key of the blueprint that holds the schema, or would hold a new one. */
  key: 'output_schema' | 'default_output_schema';
  /** Name in the registry; null if the blueprint holds the schema itself. */
  name: string | null;
  isDefined: boolean;
}

export function outputSchema(agent: Schemas): OutputSchema {
  const isDefined = (value: unknown) => value !== undefined && value !== null;
  for (const key of ['output_schema', 'default_output_schema'] as const) {
    const name = agent[`${key}_name`] ?? null;
    if (name !== null || isDefined(agent[key])) return { key, name, isDefined: true };
  }
  return { key: 'output_schema', name: null, isDefined: false };
}

/** Whether the agent's schema is enforced on every run, so that a run cannot bring another one. */
export function isFixed(agent: Schemas): boolean {
  const { key, isDefined } = outputSchema(agent);
  return isDefined && key === 'output_schema';
}

/** Default of `max_retries` for an agent's own schema, and for every other schema. */
export const RETRIES_OWN = 1;
export const RETRIES_OTHER = 2;

/** Returns the retries of a run whose request sets none. */
export function retriesOf(agent: Schemas): number {
  return agent.default_output_schema_options?.max_retries ?? (outputSchema(agent).key === 'output_schema' ? RETRIES_OWN : RETRIES_OTHER);
}
