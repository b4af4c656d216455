import type { Call, Check, Contract } from '$lib/api/additions';
import { client, unwrap } from '$lib/api/client';

/** Longer texts are not sent to the server again only to show their repairs. */
const TEXT_MAX = 1_000_000;

export async function checkText(text: string, schema: unknown, options: Record<string, unknown> | null): Promise<Check> {
  const body = { text, ...(schema === undefined ? {} : { schema: schema as never }), ...(options ? { options } : {}) };
  return (await unwrap(client.POST('/check', { body }))) as Check;
}

/** Adds the extraction of each reply by checking its text again, without a model call. */
export async function extractCalls(calls: Call[], contract: Contract | null): Promise<Call[]> {
  if (!contract) return calls;
  return Promise.all(
    calls.map(async (call) => {
      if (call.extraction || !call.source_text || call.source_text.length > TEXT_MAX) return call;
      const check = await checkText(call.source_text, contract.schema, contract.options).catch(() => null);
      if (!check) return call;
      return { ...call, extraction: { found: check.found, value: check.value ?? null, document: check.document ?? null, repairs: check.repairs } };
    }),
  );
}
