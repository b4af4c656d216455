import type { Backend } from '$lib/api/types';

/** A backend by name, with the models for which runners report it. */
export interface NamedBackend {
  name: string;
  models: string[];
}

/** Lists each name once. Runners may report one name with several kinds and models. */
export function namedBackends(backends: Pick<Backend, 'name' | 'model'>[]): NamedBackend[] {
  const models = new Map<string, Set<string>>();
  for (const { name, model } of backends) {
    const known = models.get(name) ?? new Set();
    if (model) known.add(model);
    models.set(name, known);
  }
  return [...models].map(([name, known]) => ({ name, models: [...known] }));
}
