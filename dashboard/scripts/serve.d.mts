import type { Server } from 'node:http';

export function serve(port: number, api: string | (() => string)): Promise<{ url: string; server: Server }>;
