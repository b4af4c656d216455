import { jsonLine } from '$lib/json/exact';

/** The same request for a terminal. `cli` is null where the CLI has no such command. */
export interface CommandLines {
  curl: string;
  cli: string | null;
}

const PLAIN = /^[A-Za-z0-9_./:=@%+,-]+$/;

/** Quotes a word for a POSIX shell. */
export function quote(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export interface Request {
  method?: string;
  path: string;
  body?: unknown;
  stream?: boolean;
}

function curl(request: Request, origin: string, token: boolean): string {
  const words = ['curl', request.stream ? '-sN' : '-s'];
  if (request.method && request.method !== 'GET' && request.method !== 'POST') words.push('-X', request.method);
  if (request.method === 'POST' && request.body === undefined) words.push('-X', 'POST');
  words.push(quote(origin + request.path));
  if (token) words.push('-H', '"authorization: Bearer $SLIPFORM_TOKEN"');
  if (request.body !== undefined) words.push('-H', quote('content-type: application/json'), '-d', quote(jsonLine(request.body)));
  return words.join(' ');
}

/** Builds the curl line of a request and the CLI line with the same effect. */
export function commandLines(request: Request, cli: string[] | null, origin: string, token: boolean): CommandLines {
  const line = cli ? ['slipform', ...cli.map(quote), '--server', quote(origin)].join(' ') : null;
  return { curl: curl(request, origin, token), cli: line };
}
