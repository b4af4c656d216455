import type { Server, ServerResponse } from 'node:http';

export function serve(
  port: number,
  api: string | (() => string),
  intercept?: (path: string, response: ServerResponse) => boolean,
): Promise<{ url: string; server: Server }>;
