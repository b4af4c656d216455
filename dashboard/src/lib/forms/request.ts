import type { Schemas } from '$lib/api/client';
import { jsonLine } from '$lib/json/exact';

type SchemaOptions = Schemas['OutputSchemaOptions'];

/** Options of the new run form, as the texts of its fields; empty for the default. */
export interface RunOptions {
  retries: string;
  mode: string;
  strategy: string;
  backend: string;
  model: string;
  maxTokens?: string;
  timeout?: string;
}

export const NO_OPTIONS: Required<RunOptions> = { retries: '', mode: '', strategy: '', backend: '', model: '', maxTokens: '', timeout: '' };

/** Choices of the new run form. */
export interface RunChoices extends RunOptions {
  agent: string;
  parameters: Record<string, unknown>;
  schema: 'agent' | 'named' | 'inline';
  schemaName: string;
  inlineSchema: unknown;
  /** Options of an earlier run that the form has no field for. */
  others?: SchemaOptions;
}

/** Builds the body of `POST /runs`. A lone prompt is sent as `prompt`. */
export function requestBody(choices: RunChoices): Schemas['RunRequest'] {
  const { prompt, ...rest } = choices.parameters;
  const onlyPrompt = typeof prompt === 'string' && Object.keys(rest).length === 0;
  const options: SchemaOptions = { ...choices.others };
  if (choices.retries !== '') options.max_retries = Number(choices.retries);
  if (choices.mode) options.validation_mode = choices.mode;
  if (choices.strategy) options.strategy = choices.strategy;
  return {
    agent_name: choices.agent,
    ...(onlyPrompt ? { prompt } : { parameters: choices.parameters }),
    ...(choices.schema === 'named' ? { output_schema_name: choices.schemaName } : {}),
    ...(choices.schema === 'inline' ? { output_schema: choices.inlineSchema as Schemas['JsonSchema'] } : {}),
    ...(Object.keys(options).length > 0 ? { output_schema_options: options } : {}),
    ...(choices.backend ? { backend: choices.backend } : {}),
    ...(choices.model ? { model: choices.model } : {}),
    ...(choices.maxTokens ? { max_tokens: Number(choices.maxTokens) } : {}),
    ...(choices.timeout ? { timeout_seconds: Number(choices.timeout) } : {}),
  };
}

/** Words of the CLI for the options that the form has no field for. The CLI has none for other values. */
const OTHER_WORDS: Record<string, (value: unknown) => string[]> = {
  strict_json_only: (value) => (value === true ? ['--strict-json-only'] : []),
  reject_placeholders: (value) => (value === true ? ['--reject-placeholders'] : []),
  correction: (value) => ['--correction', String(value)],
  schema_form: (value) => ['--schema-form', String(value)],
};
const otherWords = ([name, value]: [string, unknown]) => OTHER_WORDS[name]?.(value) ?? [];

/** Whether the CLI has a command with the same effect. */
export function hasCliCommand({ others = {} }: RunChoices): boolean {
  return Object.entries(others).every((option) => otherWords(option).length > 0);
}

/** Returns the words of the CLI command with the same effect. */
export function cliWords(choices: RunChoices): string[] {
  const words = ['run', choices.agent];
  for (const [name, value] of Object.entries(choices.parameters)) {
    if (name === 'prompt' && typeof value === 'string') words.push('-p', value);
    else words.push('--param', `${name}=${typeof value === 'string' ? value : jsonLine(value)}`);
  }
  if (choices.schema === 'named') words.push('--schema', choices.schemaName);
  if (choices.schema === 'inline') words.push('--schema', 'schema.json');
  if (choices.retries !== '') words.push('--max-retries', choices.retries);
  if (choices.mode) words.push('--mode', choices.mode);
  if (choices.strategy) words.push('--strategy', choices.strategy);
  if (choices.backend) words.push('--backend', choices.backend);
  if (choices.model) words.push('--model', choices.model);
  if (choices.maxTokens) words.push('--max-tokens', choices.maxTokens);
  if (choices.timeout) words.push('--timeout', choices.timeout);
  words.push(...Object.entries(choices.others ?? {}).flatMap(otherWords));
  return words;
}
