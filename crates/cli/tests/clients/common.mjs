// Shared parts of the TypeScript SDK drivers: arguments, scenarios and output.
//
// A driver implements the calls of one client library. `run` connects the driver,
// executes one scenario and prints one JSON document on stdout.

import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const CHANGE_TIMEOUT_MS = 20_000;
const CANCEL_TIMEOUT_MS = 5_000;
const GET_STREAM_TIMEOUT_MS = 2_000;
const TASK_END_STATES = ['completed', 'failed', 'cancelled'];
const TOOL_FIELDS = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations', '_meta'];
const ERAS = ['default', 'auto', '2026', 'pin', 'legacy'];

const text = { type: 'string' };
const OPTIONS = {
    scenario: text, era: { ...text, default: 'default' }, token: text, tool: text,
    arguments: { ...text, default: '{}' }, 'after-progress': { type: 'boolean' }, task: text, uri: text,
    template: text, argument: text, value: { ...text, default: '' }, name: text, touch: text,
    content: { ...text, default: '' }, count: { ...text, default: '10' }, method: text,
    params: { ...text, default: '{}' }, timeout: { ...text, default: '60' }, limit: { ...text, default: '120' },
};

export class Unsupported extends Error {}

/** A promise with its resolve function and a flag that tells whether it is set. */
export class Signal {
    constructor() {
        this.isSet = false;
        this.promise = new Promise(resolve => (this.resolve = resolve));
    }

    set() {
        this.isSet = true;
        this.resolve();
    }

    async wait(milliseconds) {
        let timer;
        const timeout = new Promise(resolve => (timer = setTimeout(resolve, milliseconds)));
        await Promise.race(milliseconds === undefined ? [this.promise] : [this.promise, timeout]);
        clearTimeout(timer);
        return this.isSet;
    }
}

function usage(message) {
    console.error(`error: ${message}\nusage: DRIVER --scenario NAME [options] (stdio COMMAND ARGS... | http URL)`);
    process.exit(2);
}

/** Splits the command line before `stdio` or `http`, so that the server's own options stay untouched. */
function parseCommandLine(argv) {
    const position = argv.findIndex(
        (arg, index) => ['stdio', 'http'].includes(arg) && !takesValue(argv[index - 1]));
    if (position < 0 || position + 1 >= argv.length) usage('transport missing');
    const { values } = parseArgs({ args: argv.slice(0, position), options: OPTIONS });
    if (!(values.scenario in SCENARIOS)) usage(`unknown scenario \`${values.scenario}\``);
    if (!ERAS.includes(values.era)) usage(`unknown era \`${values.era}\``);
    return {
        ...values,
        arguments: JSON.parse(values.arguments),
        params: JSON.parse(values.params),
        count: Number(values.count),
        timeoutMs: Number(values.timeout) * 1000,
        limitMs: Number(values.limit) * 1000,
        transport: argv[position],
        target: argv.slice(position + 1),
    };
}

function takesValue(arg) {
    return arg?.startsWith('--') && OPTIONS[arg.slice(2)]?.type === 'string';
}

/** Base class of the drivers. All results are plain JSON values in wire spelling. */
export class Driver {
    eras = ['default', 'legacy'];
    noTasks = 'the library speaks protocol versions up to 2025-11-25; io.modelcontextprotocol/tasks needs 2026-07-28';

    constructor(options) {
        this.options = options;
        this.toolsChanged = new Signal();
        this.getStreamAnswered = new Signal();
    }

    get headers() {
        return this.options.token ? { Authorization: `Bearer ${this.options.token}` } : {};
    }

    /** A fetch that signals when the server has answered the GET of the change stream. */
    get observingFetch() {
        return async (url, init) => {
            const response = await fetch(url, init);
            if (init?.method === 'GET') this.getStreamAnswered.set();
            return response;
        };
    }

    /** Waits until the server can deliver list changes. */
    async subscribe() {
        if (this.options.transport === 'http') await this.getStreamAnswered.wait(GET_STREAM_TIMEOUT_MS);
    }

    async runTask(tool, args) {
        const created = await this.startTask(tool, args);
        if (created.taskId === undefined) return { immediate: created };
        const statuses = [created.status];
        for (;;) {
            const task = await this.getTask(created.taskId);
            statuses.push(task.status);
            if (TASK_END_STATES.includes(task.status)) return { created, statuses, final: task };
            await new Promise(resolve => setTimeout(resolve, Math.min(task.pollIntervalMs ?? 500, 1000)));
        }
    }

    startTask() {
        throw new Unsupported(this.noTasks);
    }

    getTask() {
        throw new Unsupported(this.noTasks);
    }

    cancelTask() {
        throw new Unsupported(this.noTasks);
    }
}

async function listAll(driver, kind) {
    const items = [];
    let cursor;
    let pages = 0;
    do {
        const page = await driver.listPage(kind, cursor);
        items.push(...page[kind]);
        cursor = page.nextCursor;
        pages += 1;
    } while (cursor !== undefined);
    return { items, pages };
}

function summarize(result) {
    return {
        isError: result.isError ?? false,
        structuredContent: result.structuredContent ?? null,
        texts: (result.content ?? []).filter(block => block.type === 'text').map(block => block.text),
        _meta: result._meta ?? null,
    };
}

async function list(driver) {
    const { items, pages } = await listAll(driver, 'tools');
    const tools = items.map(tool => Object.fromEntries(TOOL_FIELDS.map(field => [field, tool[field] ?? null])));
    return { ...driver.info(), tools, pages };
}

async function call(driver, options) {
    await driver.prepareValidation(options.tool);
    return summarize(await driver.callTool(options.tool, options.arguments));
}

async function progress(driver, options) {
    const received = [];
    const onProgress = ({ progress: value, total = null, message = null }) =>
        received.push({ progress: value, total, message });
    const result = await driver.callTool(options.tool, options.arguments, { onProgress });
    return { ...summarize(result), progress: received };
}

/** Starts a call; resolves after its first progress notification or its end. */
async function startAndWaitForProgress(driver, options, outcome, signal) {
    const running = new Signal();
    outcome.received = 0;
    const onProgress = () => {
        outcome.received += 1;
        running.set();
    };
    outcome.done = driver
        .callTool(options.tool, options.arguments, { onProgress, signal })
        .then(result => Object.assign(outcome, { ended: 'with a result', result: summarize(result) }))
        .catch(error => Object.assign(outcome, { ended: 'with an error', error: driver.describeError(error) ?? { exception: String(error) } }))
        .then(() => running.set());
    await running.wait();
}

async function cancel(driver, options) {
    const outcome = {};
    const controller = new AbortController();
    await startAndWaitForProgress(driver, options, outcome, controller.signal);
    const progressBefore = outcome.received;
    controller.abort('test');
    const ended = new Signal();
    outcome.done.then(() => ended.set());
    if (!(await ended.wait(CANCEL_TIMEOUT_MS))) outcome.ended = `without an answer within ${CANCEL_TIMEOUT_MS / 1000} s`;
    else if (outcome.error) outcome.ended = 'cancelled by the client';
    delete outcome.done;
    delete outcome.received;
    await driver.listPage('tools');
    return { ...outcome, progressBefore, usableAfterwards: true };
}

async function disconnect(driver, options) {
    await startAndWaitForProgress(driver, options, {});
    const pid = driver.transport.pid;
    printDocument({ disconnected: true, serverPids: pid ? [pid] : [] });
    process.exit(0);
}

async function changes(driver, options) {
    await listAll(driver, 'tools');
    await driver.subscribe();
    writeFileSync(options.touch, options.content);
    const changed = await driver.toolsChanged.wait(CHANGE_TIMEOUT_MS);
    const { items } = await listAll(driver, 'tools');
    return { changed, tools: items.map(tool => tool.name) };
}

async function many(driver, options) {
    const failures = [];
    const started = performance.now();
    for (let index = 0; index < options.count; index += 1) {
        try {
            const result = summarize(await driver.callTool(options.tool, options.arguments));
            if (result.isError) failures.push(result);
        } catch (error) {
            const described = driver.describeError(error);
            if (described === undefined) throw error;
            failures.push(described);
        }
    }
    const seconds = Math.round(performance.now() - started) / 1000;
    return { successes: options.count - failures.length, count: options.count, failures: failures.slice(0, 3), seconds };
}

async function resources(driver) {
    const listed = await listAll(driver, 'resources');
    const templates = await listAll(driver, 'resourceTemplates');
    return { resources: listed.items, pages: listed.pages, resourceTemplates: templates.items, templatePages: templates.pages };
}

async function prompts(driver) {
    const { items, pages } = await listAll(driver, 'prompts');
    return { prompts: items, pages };
}

const SCENARIOS = {
    list, call, progress, cancel, disconnect, changes, many, resources, prompts,
    read: (driver, o) => driver.client.readResource({ uri: o.uri }, driver.requestOptions),
    complete: (driver, o) => driver.client.complete(
        { ref: { type: 'ref/resource', uri: o.template }, argument: { name: o.argument, value: o.value } }, driver.requestOptions),
    prompt: (driver, o) => driver.client.getPrompt({ name: o.name, arguments: o.arguments }, driver.requestOptions),
    task: (driver, o) => driver.runTask(o.tool, o.arguments),
    'task-start': (driver, o) => driver.startTask(o.tool, o.arguments),
    'task-get': (driver, o) => driver.getTask(o.task),
    'task-cancel': (driver, o) => driver.cancelTask(o.task),
    raw: (driver, o) => driver.rawRequest(o.method, o.params),
};

function printDocument(document) {
    writeFileSync(1, JSON.stringify(document) + '\n');
}

async function execute(driver, options) {
    if (!driver.eras.includes(options.era)) {
        return { unsupported: `era \`${options.era}\`: the library offers ${driver.eras.join(', ')}` };
    }
    await driver.connect();
    let document;
    try {
        document = await SCENARIOS[options.scenario](driver, options);
    } catch (error) {
        document = error instanceof Unsupported ? { unsupported: error.message } : driver.describeError(error);
        if (document === undefined) throw error;
    }
    const closing = performance.now();
    await driver.close();
    return { ...document, closeSeconds: Math.round((performance.now() - closing) / 10) / 100 };
}

export async function run(DriverClass) {
    const options = parseCommandLine(process.argv.slice(2));
    setTimeout(() => {
        console.error(`error: no result within ${options.limitMs / 1000} s`);
        process.exit(3);
    }, options.limitMs).unref();
    try {
        printDocument(await execute(new DriverClass(options), options));
        process.exit(0);
    } catch (error) {
        console.error(error);
        process.exit(1);
    }
}
