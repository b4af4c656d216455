import type { EventOf, JournalEvent, Session } from '$lib/api/types';
import type { Schemas } from '$lib/api/client';
import { RETRIES_OTHER, RETRIES_OWN } from '$lib/agents/schema';
import type { RunChoices, RunOptions } from './request';

type RunStart = EventOf<'run_start'>;
type Options = Schemas['ContractOptions'];

interface Page {
  events: JournalEvent[];
  next?: number | null;
}

/** Reads a journal page by page until it finds the start of a run. */
export async function findStart(runId: string, read: (after: number) => Promise<Page>): Promise<RunStart> {
  for (let after: number | null = 0; after !== null; ) {
    const page: Page = await read(after);
    const start = page.events.find((event): event is JournalEvent & RunStart => event.event_type === 'run_start' && event.run_id === runId);
    if (start) return start;
    after = page.next ?? null;
  }
  throw new Error(`the journal has no start of run ${runId}`);
}

/** Options of a contract for which neither the agent nor the request sets a value. */
const DEFAULTS: Omit<Options, 'max_retries'> = {
  extract_json: true,
  strict_json_only: false,
  validation_mode: 'strict',
  strategy: 'auto',
  correction: 'auto',
  schema_form: 'auto',
  reject_placeholders: false,
};

/** Returns the options of a contract that differ from what its agent's blueprint gives. */
function chosenOptions({ contract, blueprint }: RunStart): Partial<Options> {
  if (!contract) return {};
  const own = (blueprint as { default_output_schema_options?: Partial<Options> }).default_output_schema_options;
  const given: Options = { ...DEFAULTS, max_retries: contract.source === 'blueprint' ? RETRIES_OWN : RETRIES_OTHER, ...own };
  return Object.fromEntries(Object.entries(contract.options).filter(([name, value]) => given[name as keyof Options] !== value));
}

/** The choices that repeat a run. */
export interface Rerun {
  parameters: Record<string, unknown>;
  schema: RunChoices['schema'];
  schemaName: string;
  inlineSchema: unknown;
  options: Required<RunOptions>;
  others: NonNullable<RunChoices['others']>;
  projectDir: string;
  /** Session that the run continued; empty if it started one. */
  session: string;
}

/** Returns the choices that repeat a run, of which its session knows the working folder. */
export function rerunOf(start: RunStart, session: Pick<Session, 'session_id' | 'project_dir'>): Rerun {
  const { max_retries, validation_mode, strategy, ...others } = chosenOptions(start);
  const { contract, overrides } = start;
  const text = (value: string | number | null | undefined) => String(value ?? '');
  return {
    parameters: (start.parameters ?? {}) as Record<string, unknown>,
    schema: contract?.source === 'named' && contract.schema_name ? 'named' : contract?.source === 'inline' ? 'inline' : 'agent',
    schemaName: contract?.schema_name ?? '',
    inlineSchema: contract?.schema,
    options: {
      retries: text(max_retries),
      mode: text(validation_mode),
      strategy: text(strategy),
      backend: text(overrides?.backend),
      model: text(overrides?.model),
      maxTokens: text(overrides?.max_tokens),
      timeout: text(overrides?.timeout_seconds),
    },
    others,
    projectDir: session.project_dir ?? '',
    session: start.type === 'resume_session' ? session.session_id : '',
  };
}
