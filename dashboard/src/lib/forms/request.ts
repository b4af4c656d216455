/** Choices of the new run form. */
export interface RunChoices {
  agent: string;
  parameters: Record<string, unknown>;
  schema: 'agent' | 'named' | 'inline';
  schemaName: string;
  inlineSchema: unknown;
  retries: string;
  mode: string;
  strategy: string;
  backend: string;
  model: string;
}

/** Builds the body of `POST /runs`. A lone prompt is sent as `prompt`. */
export function requestBody(choices: RunChoices): Record<string, unknown> {
  const { prompt, ...rest } = choices.parameters;
  const onlyPrompt = typeof prompt === 'string' && Object.keys(rest).length === 0;
  const options: Record<string, unknown> = {};
  if (choices.retries !== '') options.max_retries = Number(choices.retries);
  if (choices.mode) options.validation_mode = choices.mode;
  if (choices.strategy) options.strategy = choices.strategy;
  return {
    agent_name: choices.agent,
    ...(onlyPrompt ? { prompt } : { parameters: choices.parameters }),
    ...(choices.schema === 'named' ? { output_schema_name: choices.schemaName } : {}),
    ...(choices.schema === 'inline' ? { output_schema: choices.inlineSchema } : {}),
    ...(Object.keys(options).length > 0 ? { output_schema_options: options } : {}),
    ...(choices.backend ? { backend: choices.backend } : {}),
    ...(choices.model ? { model: choices.model } : {}),
  };
}

/** Returns the words of the CLI command with the same effect. */
export function cliWords(choices: RunChoices): string[] {
  const words = ['run', choices.agent];
  for (const [name, value] of Object.entries(choices.parameters)) {
    if (name === 'prompt' && typeof value === 'string') words.push('-p', value);
    else words.push('--param', `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  }
  if (choices.schema === 'named') words.push('--schema', choices.schemaName);
  if (choices.schema === 'inline') words.push('--schema', 'schema.json');
  if (choices.retries !== '') words.push('--max-retries', choices.retries);
  if (choices.mode) words.push('--mode', choices.mode);
  if (choices.strategy) words.push('--strategy', choices.strategy);
  if (choices.backend) words.push('--backend', choices.backend);
  return words;
}
