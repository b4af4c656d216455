// Asks with the AI SDK and `@ai-sdk/openai-compatible`: `Output.object`, required tools, and streams.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai';
import { z } from 'zod';
import { API_KEY, getWeather, Person, run, WRONG_SCHEMA } from './common.mjs';

const AS_PERSON = { output: Output.object({ schema: Person }) };
const SAVE_PERSON = { tools: { save_person: tool({ inputSchema: Person }) }, toolChoice: 'required' };
const GET_WEATHER = {
    tools: { get_weather: tool({ inputSchema: z.object({ city: z.string() }), execute: getWeather }) },
    stopWhen: isStepCount(3),
};

/** Reads a stream to its end. The library reports errors to a callback and ends the text. */
async function read(options) {
    const errors = [];
    const result = streamText({ ...options, onError: ({ error }) => void errors.push(error) });
    let text = '';
    for await (const delta of result.textStream) text += delta;
    if (errors.length > 0) throw errors[0];
    return [result, text];
}

class AISDKDriver {
    constructor(baseURL) {
        // Without the first option the library sends `json_object` and no schema.
        const options = { supportsStructuredOutputs: true, includeUsage: true };
        this.provider = createOpenAICompatible({ name: 'slipform', baseURL, apiKey: API_KEY, ...options });
    }

    request(model, prompt, options) {
        return { model: this.provider(model), prompt, ...options };
    }

    async schema(model, prompt) {
        const result = await generateText(this.request(model, prompt, AS_PERSON));
        return { value: result.output, finish: result.finishReason, usage: result.usage.totalTokens };
    }

    async schema_stream(model, prompt) {
        const [result, text] = await read(this.request(model, prompt, AS_PERSON));
        return { value: await result.output, text, finish: await result.finishReason, usage: (await result.usage).totalTokens };
    }

    async tool(model, prompt) {
        const result = await generateText(this.request(model, prompt, SAVE_PERSON));
        return { value: result.toolCalls[0].input, finish: result.finishReason, usage: result.usage.totalTokens };
    }

    async tool_stream(model, prompt) {
        const [result] = await read(this.request(model, prompt, SAVE_PERSON));
        const [call] = await result.toolCalls;
        return { value: call.input, finish: await result.finishReason, usage: (await result.usage).totalTokens };
    }

    async text(model, prompt) {
        const result = await generateText(this.request(model, prompt));
        return { text: result.text, finish: result.finishReason, usage: result.usage.totalTokens };
    }

    async text_stream(model, prompt) {
        const [result, text] = await read(this.request(model, prompt));
        return { text, finish: await result.finishReason, usage: (await result.usage).totalTokens };
    }

    async tool_loop(model, prompt) {
        const { steps: [first], text } = await generateText(this.request(model, prompt, GET_WEATHER));
        return { arguments: first.toolCalls[0].input, finish: first.finishReason, text };
    }

    async tool_loop_stream(model, prompt) {
        const [result, text] = await read(this.request(model, prompt, GET_WEATHER));
        const [first] = await result.steps;
        return { arguments: first.toolCalls[0].input, finish: first.finishReason, text };
    }

    async wrong_schema(model, prompt) {
        const output = Output.object({ schema: jsonSchema(WRONG_SCHEMA) });
        return { text: (await generateText(this.request(model, prompt, { output }))).text };
    }
}

await run(AISDKDriver);
