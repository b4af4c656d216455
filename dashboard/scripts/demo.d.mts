import type { ChildProcess } from 'node:child_process';

export interface Server {
  url: string;
  port: number;
  child: ChildProcess;
  kill: (signal?: NodeJS.Signals) => Promise<void>;
  log: () => string;
}

export interface DemoRun {
  run_id: string;
  session_id: string;
  status: string;
}

export interface Project {
  agentFiles?: Record<string, unknown>;
  replyFiles?: Record<string, unknown[]>;
  settings?: string;
}

export function writeProject(folder: string, project?: Project): void;
export function freePort(): Promise<number>;
export function startServer(binary: string, folder: string, options?: { port?: number; args?: string[] }): Promise<Server>;
export function run(url: string, body: unknown, options?: { wait?: number; headers?: Record<string, string> }): Promise<DemoRun>;
export function runDemo(url: string): Promise<Record<string, DemoRun>>;
