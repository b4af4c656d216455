import createClient from 'openapi-fetch';
import { jsonLine, parseJson } from '$lib/json/exact';
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

const inexact = createClient<paths>({ baseUrl: location.origin, fetch: (request) => send(request), bodySerializer: jsonLine });

type AnyMethod = (path: string, init?: { parseAs?: string }) => Promise<Answer<unknown>>;

/** Reads answers as text, so that their numbers keep their digits. A caller that asks for the text gets it. */
function exactly<M>(method: M): M {
  const send = method as AnyMethod;
  const wrapped: AnyMethod = async (path, init) => {
    const answer = await send(path, { ...init, parseAs: 'text' });
    if (init?.parseAs === 'text' || typeof answer.data !== 'string') return answer;
    return { ...answer, data: answer.data === '' ? undefined : parseJson(answer.data) };
  };
  return wrapped as M;
}

/** The API. Numbers beyond the precision of a double arrive as `ExactNumber`, and are sent with all their digits. */
export const client = {
  GET: exactly(inexact.GET),
  POST: exactly(inexact.POST),
  PATCH: exactly(inexact.PATCH),
  DELETE: exactly(inexact.DELETE),
};

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

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
