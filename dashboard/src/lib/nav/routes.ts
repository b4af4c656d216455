import type { Component } from 'svelte';

export type Params = Record<string, string>;
/** Screens without parameters ignore the property. */
export type Screen = Component<any>;
type Loader = () => Promise<{ default: Screen }>;

export interface Route {
  pattern: string;
  section: string;
  load: Loader;
}

export const routes: Route[] = [
  { pattern: '/runs', section: 'runs', load: () => import('../../screens/Runs.svelte') },
  { pattern: '/runs/new', section: 'new', load: () => import('../../screens/NewRun.svelte') },
  { pattern: '/sessions/:id', section: 'runs', load: () => import('../../screens/Session.svelte') },
  { pattern: '/sessions/:id/:tab', section: 'runs', load: () => import('../../screens/Session.svelte') },
  { pattern: '/gateway', section: 'gateway', load: () => import('../../screens/Gateway.svelte') },
  { pattern: '/agents', section: 'agents', load: () => import('../../screens/Agents.svelte') },
  { pattern: '/agents/:name', section: 'agents', load: () => import('../../screens/Agent.svelte') },
  { pattern: '/agents/:name/:tab', section: 'agents', load: () => import('../../screens/Agent.svelte') },
  { pattern: '/schemas', section: 'schemas', load: () => import('../../screens/Schemas.svelte') },
  { pattern: '/schemas/:name', section: 'schemas', load: () => import('../../screens/Schema.svelte') },
  { pattern: '/check', section: 'check', load: () => import('../../screens/Check.svelte') },
  { pattern: '/stats', section: 'stats', load: () => import('../../screens/Stats.svelte') },
  { pattern: '/system', section: 'system', load: () => import('../../screens/System.svelte') },
  { pattern: '/login', section: 'login', load: () => import('../../screens/Login.svelte') },
];

/** Matches a path against a pattern with `:name` segments. */
export function match(pattern: string, path: string): Params | null {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const params: Params = {};
  for (const [index, segment] of wanted.entries()) {
    const value = given[index] ?? '';
    if (segment.startsWith(':')) {
      if (value === '') return null;
      params[segment.slice(1)] = decodeSegment(value);
    } else if (segment !== value) return null;
  }
  return params;
}

function decodeSegment(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

/** Finds the route of a path. Patterns without parameters take precedence. */
export function findRoute(path: string): { route: Route; params: Params } | null {
  const ordered = [...routes].sort((a, b) => Number(a.pattern.includes(':')) - Number(b.pattern.includes(':')));
  for (const route of ordered) {
    const params = match(route.pattern, path);
    if (params) return { route, params };
  }
  return null;
}
