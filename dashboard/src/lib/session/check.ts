import type { Check } from '$lib/api/types';
import { client, unwrap, type Schemas } from '$lib/api/client';

/** Extracts and validates a text on the server, without a model call. */
export async function checkText(text: string, schema: unknown, options: Schemas['OutputSchemaOptions']): Promise<Check> {
  const body = { text, options, ...(schema === undefined ? {} : { schema: schema as Schemas['JsonSchema'] }) };
  return (await unwrap(client.POST('/check', { body }))) as Check;
}
