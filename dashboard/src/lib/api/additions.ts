// Types of API members that `openapi.json` does not describe yet. Remove each one when it does.
import type { components } from './schema';

type Schemas = components['schemas'];

export interface Whoami {
  name: string | null;
  scope: 'local' | 'admin' | 'caller' | 'runner';
  agents: string[] | null;
  token_required: boolean;
}

export type Verdict = 'first_pass' | 'repaired' | 'retried' | 'escalated';

export interface RunError {
  type: string;
  message: string;
  validation_errors?: string[];
  last_output?: string | null;
  calls?: number;
  retry_count?: number;
}

export type RunSummary = Omit<Schemas['RunSummary'], 'error' | 'tokens'> & {
  error?: RunError | null;
  tokens?: { input: number; output: number } | null;
  verdict?: Verdict | null;
  repairs?: number;
  max_retries?: number | null;
};

export interface Repair {
  kind: string;
  pointer: string;
  from: unknown;
  to: unknown;
  lossless?: boolean;
  description?: string;
  span?: [number, number] | null;
}

export interface Contract {
  source: string;
  schema_name: string | null;
  schema: unknown;
  hash: string;
  options: Record<string, unknown>;
  example: unknown;
}

export interface Receipt {
  strategy: string | null;
  calls: number;
  retries: number;
  repairs: Repair[];
  rungs: { tier: string; backend: string; model: string; calls: number }[];
  tokens: { input: number; output: number };
  schema_hash: string | null;
  unenforced: unknown[];
  flags: string[];
}

export interface Salvage {
  replies: string[];
  best_candidate: unknown;
  valid_parts: unknown;
  errors: string[];
}

export interface Run extends RunSummary {
  contract?: Contract | null;
  result_text?: string | null;
  result_data?: unknown;
  result?: string | null;
  validated_output?: unknown;
  schema_validation?: { valid: boolean; retry_count: number; max_retries?: number; repairs: Repair[]; strategy?: string | null } | null;
  receipt?: Receipt | null;
  salvage?: Salvage | null;
  continued_by?: string[];
}

export interface CallReply {
  text: string;
  reasoning: string | null;
  tool_calls: { id: string; name: string; arguments: unknown }[];
  stop_reason: string | null;
  usage: Record<string, unknown> | null;
}

export interface Call {
  seq: number;
  number: number;
  timestamp: string;
  tier: string | null;
  backend: string | null;
  model: string | null;
  asked: string | null;
  request: Record<string, unknown> | null;
  reply: CallReply | null;
  error: { kind: string; status: number | null; message: string } | null;
  source: 'text' | 'submit_result' | null;
  source_text: string | null;
  extraction: { found: boolean; value: unknown; document: [number, number] | null; repairs: Repair[] } | null;
  violations: string[];
  outcome: 'accepted' | 'rejected' | 'failed' | 'continued';
  consequence: string | null;
  correction: string | null;
}

export type Check = Omit<Schemas['CheckView'], 'repairs'> & { repairs: Repair[]; document?: [number, number] | null };

export interface TimelineBucket {
  start: string;
  runs: number;
  completed: number;
  failed: number;
  first_pass: number;
  retries: number;
  tokens: number;
}

export interface ViolationCount {
  path: string;
  backend: string | null;
  count: number;
}

export type Backend = Schemas['BackendView'] & { probe?: Record<string, unknown> | null };

export type Agent = Schemas['AgentView'] & {
  title?: string;
  description?: string;
  type?: string;
  command?: string[];
  system_prompt?: string;
  parameters_schema?: unknown;
  output_schema?: unknown;
  output_schema_name?: string;
  default_output_schema?: unknown;
  default_output_schema_name?: string;
  default_output_schema_options?: Record<string, unknown>;
  mcp_servers?: Record<string, { command?: string[]; url?: string }>;
  tools?: string[];
  agents?: string[];
  tier?: string;
  escalation?: string[];
  limits?: Record<string, unknown>;
  env?: string[];
};

export type JournalEvent = Schemas['Event'] & Record<string, unknown>;
