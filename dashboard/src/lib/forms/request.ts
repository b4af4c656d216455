import type { Schemas } from '$lib/api/client';
import { jsonFile, LINE_MAX, option, type CliCommand } from '$lib/command/lines';
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
  /** Working folder of an earlier run, for which the form has no field; empty for the runner's project. */
  projectDir?: string;
  /** Session to continue; empty to start a new one. */
  session?: string;
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
    ...(choices.session ? { session_id: choices.session } : { agent_name: choices.agent }),
    ...(onlyPrompt ? { prompt } : { parameters: choices.parameters }),
    ...(choices.schema === 'named' ? { output_schema_name: choices.schemaName } : {}),
    ...(choices.schema === 'inline' ? { output_schema: choices.inlineSchema as Schemas['JsonSchema'] } : {}),
    ...(Object.keys(options).length > 0 ? { output_schema_options: options } : {}),
    ...(choices.projectDir && !choices.session ? { project_dir: choices.projectDir } : {}),
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
export function hasCliCommand({ others = {}, projectDir, session }: RunChoices): boolean {
  if (projectDir && !session) return false;
  return Object.entries(others).every((option) => otherWords(option).length > 0);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the words for one parameter; null if they could mean another value. The CLI reads `-p -` from standard input, and
 * parses the value of `--param` as JSON unless the schema allows strings only, which the dashboard does not decide.
 */
function parameterWords([name, value]: [string, unknown]): string[] | null {
  if (name === 'prompt' && typeof value === 'string') {
    if (value === '-') return null;
    return value.startsWith('-') ? [`--prompt=${value}`] : ['-p', value];
  }
  if (!/^[^-=][^=]*$/.test(name) || (typeof value === 'string' && isJson(value))) return null;
  return ['--param', `${name}=${typeof value === 'string' ? value : jsonLine(value)}`];
}

/** Returns the parameters as words, or as JSON that the CLI reads where words could mean other values. */
function parameterInput(parameters: Record<string, unknown>): CliCommand {
  const words = Object.entries(parameters).map(parameterWords);
  const flat = words.flatMap((part) => part ?? []);
  if (words.every((part) => part !== null) && flat.join(' ').length <= LINE_MAX) return { words: flat };
  const input = jsonLine(parameters);
  if (input.length <= LINE_MAX) return { words: ['--params', '-'], input };
  return { words: ['--params', 'params.json'], files: [jsonFile('params.json', parameters)] };
}

/** Returns the CLI command with the same effect. */
export function cliCommand(choices: RunChoices): CliCommand {
  const { words: parameters, input, files = [] } = parameterInput(choices.parameters);
  const words = ['run', choices.agent, ...parameters];
  if (choices.session) words.push('--session', choices.session);
  if (choices.schema === 'named') words.push(...option('--schema', choices.schemaName));
  if (choices.schema === 'inline') words.push('--schema', 'schema.json');
  if (choices.retries !== '') words.push('--max-retries', choices.retries);
  if (choices.mode) words.push('--mode', choices.mode);
  if (choices.strategy) words.push('--strategy', choices.strategy);
  if (choices.backend) words.push(...option('--backend', choices.backend));
  if (choices.model) words.push(...option('--model', choices.model));
  if (choices.maxTokens) words.push('--max-tokens', choices.maxTokens);
  if (choices.timeout) words.push('--timeout', choices.timeout);
  words.push(...Object.entries(choices.others ?? {}).flatMap(otherWords));
  const schema = choices.schema === 'inline' ? [jsonFile('schema.json', choices.inlineSchema)] : [];
  return { words, ...(input === undefined ? {} : { input }), files: [...files, ...schema] };
}
