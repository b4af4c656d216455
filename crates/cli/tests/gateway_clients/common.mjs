// Runs scenarios with a client library, and prints what the program saw as one JSON object.
//
// usage: CLIENT.mjs BASE_URL
//
// `common.py` describes the scenarios.

import { z } from 'zod';

/** Every library sends a key. Without tokens, a gateway on loopback ignores it. */
export const API_KEY = 'unused';

/** After this time the program ends with exit code 3. */
const LIMIT_MS = 300_000;

/** The models that each way to ask is tried with. */
const PLAN = {
    schema: ['person', 'repair', 'refusal', 'truncated', 'invalid', 'limited', 'down', 'unknown'],
    schema_stream: ['person', 'refusal', 'truncated', 'invalid'],
    tool: ['person', 'repair', 'refusal', 'truncated', 'invalid'],
    tool_stream: ['person', 'invalid'],
    text: ['chat', 'short', 'refusal'],
    text_stream: ['chat', 'short', 'broken'],
    tool_loop: ['weather'],
    tool_loop_stream: ['weather'],
    wrong_schema: ['person'],
    deadline: ['silent'],
};

export const Person = z.object({ name: z.string(), age: z.number().int() });

/** An invalid JSON Schema. */
export const WRONG_SCHEMA = { type: 'wrong' };

export function getWeather({ city }) {
    return `21 degrees in ${city}`;
}

/** Returns the class of an exception, that of its cause, and the HTTP status and the code of either. */
function describe(error) {
    const chain = [error];
    while (chain.at(-1).cause ?? chain.at(-1).lastError) chain.push(chain.at(-1).cause ?? chain.at(-1).lastError);
    const seen = { error: error.constructor.name };
    const cause = chain.at(-1).constructor.name;
    if (cause !== seen.error) seen.cause = cause;
    const status = chain.map(one => one.status ?? one.statusCode).find(Boolean);
    if (status) seen.status = status;
    const code = chain.map(one => one.code ?? one.data?.error?.code).find(Boolean);
    if (code) seen.code = code;
    return seen;
}

/** Runs the methods of a driver: one for each way to ask, with the model and the prompt. */
export async function run(Driver) {
    setTimeout(() => process.exit(3), LIMIT_MS).unref();
    const driver = new Driver(process.argv[2]);
    const seen = {};
    for (const [way, models] of Object.entries(PLAN)) {
        for (const model of driver[way] ? models : []) {
            const scenario = `${way} ${model}`;
            try {
                seen[scenario] = await driver[way](model, `[${scenario}] Ada is 36.`);
            } catch (error) {
                seen[scenario] = describe(error);
                console.error(`--- ${scenario}\n`, error);
            }
        }
    }
    console.log(JSON.stringify(seen));
}
