// Short names for the types of `openapi.json`, and types for the members that it describes as open objects.
import type { components } from './schema';

type Schemas = components['schemas'];

export type Run = Schemas['RunView'];
export type RunSummary = Schemas['RunSummary'];
export type Session = Schemas['SessionView'];
export type Call = Schemas['CallView'];
export type Check = Schemas['CheckView'];
export type Repair = Schemas['RepairView'];
export type Backend = Schemas['BackendView'];
export type FailureType = Schemas['RunErrorType'];
export type GatewayRequest = Schemas['GatewayRequestView'];
export type TimelineRow = Schemas['TimelineRow'];
export type ViolationsRow = Schemas['ViolationsRow'];

export type JournalEvent = Schemas['Event'];
export type EventType = JournalEvent['event_type'];
export type EventOf<T extends EventType> = Extract<JournalEvent, { event_type: T }>;

/** Keys of a blueprint that the dashboard shows. `AgentView` holds them as an open object. */
interface Blueprint {
  title?: string;
  description?: string;
  type?: 'autonomous' | 'procedural' | 'orchestrator';
  command?: string[];
  system_prompt?: string;
  parameters_schema?: unknown;
  output_schema?: unknown;
  output_schema_name?: string;
  default_output_schema?: unknown;
  default_output_schema_name?: string;
  default_output_schema_options?: Schemas['OutputSchemaOptions'];
  mcp_servers?: Record<string, { command?: string[]; url?: string }>;
  tools?: string[];
  agents?: string[];
  tier?: string;
  escalation?: string[];
  limits?: Record<string, number>;
  env?: string[];
}
export type Agent = Schemas['AgentView'] & Blueprint;

/** An item of `ReplyView.tool_calls`, and of `reply.tool_calls` in `message` events. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

/** `ReplyView.usage`. */
export interface Usage {
  input: number;
  output: number;
}

/** `reply` of a `message` event. */
export interface StoredReply {
  tool_calls?: ToolCall[];
  stop?: { reason?: string };
}

/** An item of `ladder` in `attempt_started` events. */
export interface LadderRung {
  backend?: { name?: string };
}
