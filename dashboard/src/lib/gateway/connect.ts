/** The lines that change in a client of OpenAI's API. */
export interface ClientLines {
  baseUrl: string;
  apiKey: string;
  model: string;
}

/** Returns the lines for a server. A server that needs no token accepts any key, but clients insist on one. */
export function clientLines(origin: string, model: string, needsToken: boolean): ClientLines {
  return {
    baseUrl: `base_url="${origin}/v1"`,
    apiKey: needsToken ? 'api_key=os.environ["SLIPFORM_TOKEN"]' : 'api_key="unused"',
    model: `model="${model}"`,
  };
}
