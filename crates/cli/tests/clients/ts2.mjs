// Drives an MCP server with `@modelcontextprotocol/client` 2.4; the task scenarios use
// `@modelcontextprotocol/ext-tasks`.

import { Client, ProtocolError, SdkError, StreamableHTTPClientTransport, SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient, JsonRpcResponseError } from '@modelcontextprotocol/ext-tasks/client';
import { Driver, run, Unsupported } from './common.mjs';

const MODERN_VERSION = '2026-07-28';
const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';
const CLIENT_INFO = { name: 'ts2-driver', version: '1.0.0' };
const CAPABILITIES = { extensions: { [TASKS_EXTENSION]: {} } };
const LIST_METHODS = {
    tools: 'tools/list', resources: 'resources/list', resourceTemplates: 'resources/templates/list', prompts: 'prompts/list',
};
const VALIDATION_ERROR = /Structured content does not match|has an output schema but did not|Failed to validate structured/;

/** Accepts any result. */
const ANY_RESULT = { '~standard': { version: 1, vendor: 'driver', validate: value => ({ value }) } };

class Sdk2Driver extends Driver {
    eras = ['default', 'auto', '2026', 'legacy'];

    async connect() {
        const { transport, target, era, scenario } = this.options;
        this.requestOptions = { timeout: this.options.timeoutMs };
        this.transport = transport === 'stdio'
            ? new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: 'inherit' })
            : new StreamableHTTPClientTransport(new URL(target[0]), {
                fetch: this.observingFetch,
                requestInit: { headers: this.headers },
            });
        const mode = { auto: 'auto', legacy: 'legacy', 2026: { pin: MODERN_VERSION } }[era];
        this.client = new Client(CLIENT_INFO, {
            capabilities: scenario.startsWith('task') ? CAPABILITIES : {},
            ...(mode && { versionNegotiation: { mode } }),
        });
        this.client.setNotificationHandler('notifications/tools/list_changed', notification => this.onToolsChanged(notification));
        await this.client.connect(this.transport, this.requestOptions);
    }

    /** Counts unrequested change notifications only in the legacy era; 2026-07-28 forbids them. */
    onToolsChanged(notification) {
        const isRequested = notification.params?._meta?.[SUBSCRIPTION_ID_META_KEY] !== undefined;
        if (isRequested || !this.isModern) this.toolsChanged.set();
    }

    get isModern() {
        return this.client.getProtocolEra() === 'modern';
    }

    async close() {
        await this.transport.terminateSession?.();
        await this.client.close();
    }

    info() {
        return {
            protocolVersion: this.client.getNegotiatedProtocolVersion(),
            serverInfo: this.client.getServerVersion() ?? null,
            capabilities: this.client.getServerCapabilities(),
            instructions: this.client.getInstructions() ?? null,
        };
    }

    /** Requests one page: `listTools()` and its siblings collect all pages before they return. */
    listPage(kind, cursor) {
        return this.client.request({ method: LIST_METHODS[kind], params: cursor ? { cursor } : {} }, this.requestOptions);
    }

    async prepareValidation() {
        await this.client.listTools();
    }

    callTool(name, args, { onProgress, signal } = {}) {
        return this.client.callTool({ name, arguments: args }, { ...this.requestOptions, onprogress: onProgress, signal });
    }

    async subscribe() {
        if (this.isModern) await this.client.listen({ toolsListChanged: true }, this.requestOptions);
        else await super.subscribe();
    }

    rawRequest(method, params) {
        return this.client.request({ method, params }, ANY_RESULT, this.requestOptions);
    }

    requireModern() {
        if (!this.isModern) {
            throw new Unsupported(`tasks need ${MODERN_VERSION}; negotiated ${this.client.getNegotiatedProtocolVersion()}`);
        }
    }

    /** Opens a task session. The client rejects `resultType: "task"`, so requests bypass its decoder. */
    openTaskSession() {
        this.requireModern();
        return createTaskSessionFromClient(this.client, {
            endpointId: 'driver',
            rawDispatch: request => this.dispatchRaw(request),
            v2RequestFraming: { protocolVersion: MODERN_VERSION, clientInfo: CLIENT_INFO, clientCapabilities: CAPABILITIES },
        });
    }

    /** Sends a request on the client's transport and takes its answer before the client sees it. */
    async dispatchRaw(request) {
        const id = `raw-${(this.rawRequests = (this.rawRequests ?? 0) + 1)}`;
        const { onmessage } = this.transport;
        const answer = new Promise(resolve => {
            this.transport.onmessage = (message, extra) => (message.id === id ? resolve(message) : onmessage(message, extra));
        });
        await this.transport.send({ jsonrpc: '2.0', id, ...request });
        const { result, error } = await answer;
        this.transport.onmessage = onmessage;
        return error ? { kind: 'error', error } : { kind: 'result', result };
    }

    async runTask(tool, args) {
        const session = this.openTaskSession();
        const execution = await session.callTool(tool, args);
        if (execution.kind === 'immediate') return { immediate: (await execution.settle()).outcome };
        const events = [];
        const { outcome } = await execution.settle({ onEvent: event => void events.push(event), close: false });
        const views = events.filter(event => event.type === 'task').map(event => event.task);
        const final = await this.getTaskIn(session, execution.handle.taskId);
        return { created: views[0]?.raw, statuses: views.map(view => view.status), final, outcome: plainOutcome(outcome) };
    }

    async startTask(tool, args) {
        this.requireModern();
        const params = { name: tool, arguments: args, _meta: this.envelope() };
        return unwrap(await this.dispatchRaw({ method: 'tools/call', params }));
    }

    async getTask(taskId) {
        return this.getTaskIn(this.openTaskSession(), taskId);
    }

    async getTaskIn(session, taskId) {
        return (await session.task(taskId).snapshot()).raw;
    }

    async cancelTask(taskId) {
        const session = this.openTaskSession();
        await session.cancelTask(taskId);
        return { acknowledged: {}, task: await this.getTaskIn(session, taskId) };
    }

    envelope() {
        return {
            'io.modelcontextprotocol/protocolVersion': MODERN_VERSION,
            'io.modelcontextprotocol/clientInfo': CLIENT_INFO,
            'io.modelcontextprotocol/clientCapabilities': CAPABILITIES,
        };
    }

    describeError(error) {
        if (error instanceof JsonRpcResponseError) return { protocol_error: error.response };
        if (error instanceof ProtocolError) {
            if (VALIDATION_ERROR.test(error.message)) return { client_error: error.message };
            return { protocol_error: { code: error.code, message: error.message, data: error.data } };
        }
        if (error instanceof SdkError) return { client_error: `${error.code}: ${error.message}` };
        return undefined;
    }
}

function unwrap({ kind, result, error }) {
    if (kind === 'error') throw new ProtocolError(error.code, error.message, error.data);
    return result;
}

function plainOutcome({ status, result, error }) {
    return { status, result, error: error && { message: error.message } };
}

await run(Sdk2Driver);
