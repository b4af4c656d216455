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
  error?: { type: string } | null;
}

export interface Project {
  agentFiles: Record<string, unknown>;
  replyFiles: Record<string, unknown[]>;
  /** Settings of backends that are not files with replies, by name. */
  backends?: Record<string, string>;
  settings?: string;
}

export function demoProject(): Promise<Project>;
export function writeProject(folder: string, project: Project): void;
export function startServer(binary: string, folder: string, options?: { port?: number; lasting?: boolean; args?: string[] }): Promise<Server>;
export function run(url: string, body: unknown, options?: { wait?: number; headers?: Record<string, string> }): Promise<DemoRun>;
export function chat(url: string, body: unknown, options?: { headers?: Record<string, string> }): Promise<string | null>;
export function runDemo(url: string): Promise<Record<string, DemoRun>>;
