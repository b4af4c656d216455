import type { Check } from '$lib/api/types';
import { client, unwrap, type Schemas } from '$lib/api/client';

/** Returns the options that change what a check finds, and differ from those of a check without options. */
export function checkOptions(options: Schemas['OutputSchemaOptions']): [string, unknown][] {
  const defaults = { strict_json_only: false, extract_json: true, reject_placeholders: false };
  return Object.entries(defaults).flatMap(([name, usual]): [string, unknown][] => {
    const value = options[name as keyof typeof defaults] ?? usual;
    return value === usual ? [] : [[name, value]];
  });
}

/** Extracts and validates a text on the server, without a model call. */
export async function checkText(text: string, schema: unknown, options: Schemas['OutputSchemaOptions']): Promise<Check> {
  const body = { text, options, ...(schema === undefined ? {} : { schema: schema as Schemas['JsonSchema'] }) };
  return (await unwrap(client.POST('/check', { body }))) as Check;
}
