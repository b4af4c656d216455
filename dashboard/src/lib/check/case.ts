import { jsonLine } from '$lib/json/exact';

/** Returns a reply as a line for `slipform check --jsonl`, with the schema that it must satisfy. */
export function checkLine(id: string, text: string, schema: unknown): string {
  return `${jsonLine({ id, text, schema })}\n`;
}
