// Asks with the `openai` package: parsed messages, typed tools, and streams.

import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { API_KEY, getWeather, Person, run, WRONG_SCHEMA } from './common.mjs';

const AS_PERSON = { response_format: zodResponseFormat(Person, 'person') };
const SAVE_PERSON = { tools: [zodFunction({ name: 'save_person', parameters: Person })] };
const GET_WEATHER = { tools: [zodFunction({ name: 'get_weather', function: getWeather, parameters: z.object({ city: z.string() }) })] };
const WITH_USAGE = { stream_options: { include_usage: true } };

/** Returns what a program reads of a message: the parsed value, the parsed arguments, or the refusal. */
function messageOf({ choices: [{ message, finish_reason: finish }], usage }) {
    const seen = { finish, usage: usage.total_tokens };
    if (message.refusal != null) return { ...seen, refusal: message.refusal };
    return { ...seen, value: message.tool_calls?.[0].function.parsed_arguments ?? message.parsed };
}

/** Returns the arguments of the only call of a finished tool loop, and the text that follows. */
async function answeredCalls(runner) {
    const text = await runner.finalContent();
    const [call] = runner.messages.flatMap(message => message.tool_calls ?? []);
    const finish = runner.allChatCompletions()[0].choices[0].finish_reason;
    return { arguments: call.function.arguments, finish, text };
}

class OpenAIDriver {
    constructor(baseURL) {
        this.completions = new OpenAI({ baseURL, apiKey: API_KEY }).chat.completions;
    }

    body(model, prompt, options) {
        return { model, messages: [{ role: 'user', content: prompt }], ...options };
    }

    async stream(model, prompt, options) {
        let text = '';
        const stream = this.completions.stream(this.body(model, prompt, { ...options, ...WITH_USAGE }));
        stream.on('content.delta', ({ delta }) => { text += delta; });
        stream.on('tool_calls.function.arguments.delta', ({ arguments_delta: delta }) => { text += delta; });
        const completion = await stream.finalChatCompletion();
        return { ...messageOf(completion), text };
    }

    async schema(model, prompt) {
        return messageOf(await this.completions.parse(this.body(model, prompt, AS_PERSON)));
    }

    schema_stream(model, prompt) {
        return this.stream(model, prompt, AS_PERSON);
    }

    async tool(model, prompt) {
        return messageOf(await this.completions.parse(this.body(model, prompt, SAVE_PERSON)));
    }

    tool_stream(model, prompt) {
        return this.stream(model, prompt, SAVE_PERSON);
    }

    async text(model, prompt, options) {
        const { choices: [{ message, finish_reason: finish }], usage } =
            await this.completions.create(this.body(model, prompt, options));
        const seen = { text: message.content, finish, usage: usage.total_tokens };
        return message.refusal ? { ...seen, refusal: message.refusal } : seen;
    }

    async text_stream(model, prompt) {
        const seen = { text: '' };
        for await (const chunk of await this.completions.create(this.body(model, prompt, { stream: true, ...WITH_USAGE }))) {
            if (chunk.usage) seen.usage = chunk.usage.total_tokens;
            for (const { delta, finish_reason: finish } of chunk.choices) {
                seen.text += delta.content ?? '';
                seen.finish = finish;
            }
        }
        return seen;
    }

    tool_loop(model, prompt) {
        return answeredCalls(this.completions.runTools(this.body(model, prompt, GET_WEATHER)));
    }

    tool_loop_stream(model, prompt) {
        return answeredCalls(this.completions.runTools(this.body(model, prompt, { ...GET_WEATHER, stream: true })));
    }

    wrong_schema(model, prompt) {
        const format = { type: 'json_schema', json_schema: { name: 'wrong', schema: WRONG_SCHEMA } };
        return this.text(model, prompt, { response_format: format });
    }

    deadline(model, prompt) {
        // The library sends its time limit along, so that the gateway answers in time.
        return this.completions.create(this.body(model, prompt), { timeout: 10_000 });
    }
}

await run(OpenAIDriver);
