import createClient from 'openapi-fetch';
import type { components, paths } from './schema';
import { clearToken, token } from './token';

export type Schemas = components['schemas'];

/** An answer that is not a success, or a request that got no answer (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: unknown = null,
  ) {
    super(message);
  }
}

let onUnauthorized = (): void => {};

/** Registers the handler that shows the login screen after a 401. */
export function setUnauthorizedHandler(handler: () => void): void {
  onUnauthorized = handler;
}

/** Sends a request with the token, and reports a 401 to the login screen. */
export async function send(input: Request | string, init: RequestInit = {}): Promise<Response> {
  const request = new Request(input, init);
  const bearer = token();
  if (bearer) request.headers.set('authorization', `Bearer ${bearer}`);
  let response: Response;
  try {
    response = await fetch(request);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'Unreachable', 'the server does not answer; check that `slipform serve` is running');
  }
  if (response.status === 401) {
    clearToken();
    onUnauthorized();
  }
  return response;
}

export const client = createClient<paths>({ baseUrl: location.origin, fetch: (request) => send(request) });

export async function errorOf(response: Response, body?: unknown): Promise<ApiError> {
  const parsed = (body ?? (await response.json().catch(() => null))) as Partial<Schemas['ErrorBody']> | null;
  if (parsed?.message) return new ApiError(response.status, parsed.error ?? 'Error', parsed.message, parsed.details);
  if ([502, 503, 504].includes(response.status)) {
    return new ApiError(response.status, 'Unavailable', `the server is not available (${response.status}); the page tries again`);
  }
  return new ApiError(response.status, 'Error', `the server answered ${response.status}`);
}

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the data of an answer, and throws an `ApiError` otherwise. */
export async function unwrap<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw await errorOf(response, error || undefined);
  return data as T;
}

const lacking = new Set<string>();

/** Reads a path that `openapi.json` does not describe yet. A 404 without an error code means that the server lacks it. */
export async function getAddition<T>(path: string, signal?: AbortSignal): Promise<T | 'unsupported'> {
  const route = path.replace(/\?.*$/, '').replace(/run_[0-9a-f]+/, ':id');
  if (lacking.has(route)) return 'unsupported';
  const response = await send(location.origin + path, signal ? { signal } : {});
  if (response.ok) return (await response.json()) as T;
  const error = await errorOf(response);
  const lacksRoute = error.status === 404 && ['NotFound', 'Error'].includes(error.code);
  if (lacksRoute || isUnknownParameter(error)) {
    lacking.add(route);
    return 'unsupported';
  }
  throw error;
}

/** Whether the server refused a query parameter that it does not know. */
export function isUnknownParameter(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 400 || error.status === 422) && error.code === 'InvalidRequest';
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
