// Drives an MCP server with `@modelcontextprotocol/sdk` 1.32.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpError, ResultSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Driver, run } from './common.mjs';

/** Messages of the client-side output validation; it throws the same class as a server error. */
const VALIDATION_ERROR = /Structured content does not match|has an output schema but did not|Failed to validate structured/;

class Sdk1Driver extends Driver {
    async connect() {
        const { transport, target } = this.options;
        this.requestOptions = { timeout: this.options.timeoutMs };
        this.transport = transport === 'stdio'
            ? new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: 'inherit' })
            : new StreamableHTTPClientTransport(new URL(target[0]), {
                fetch: this.observingFetch,
                requestInit: { headers: this.headers },
            });
        this.recordProtocolVersion();
        this.client = new Client({ name: 'ts1-driver', version: '1.0.0' });
        this.client.setNotificationHandler(ToolListChangedNotificationSchema, () => this.toolsChanged.set());
        await this.client.connect(this.transport, this.requestOptions);
    }

    /** The client passes the negotiated version to the transport and does not expose it. */
    recordProtocolVersion() {
        const forward = this.transport.setProtocolVersion?.bind(this.transport);
        this.transport.setProtocolVersion = version => {
            this.protocolVersion = version;
            forward?.(version);
        };
    }

    async close() {
        await this.transport.terminateSession?.();
        await this.client.close();
    }

    info() {
        return {
            protocolVersion: this.protocolVersion,
            serverInfo: this.client.getServerVersion(),
            capabilities: this.client.getServerCapabilities(),
            instructions: this.client.getInstructions() ?? null,
        };
    }

    listPage(kind, cursor) {
        const lists = { tools: 'listTools', resources: 'listResources', resourceTemplates: 'listResourceTemplates', prompts: 'listPrompts' };
        return this.client[lists[kind]]({ cursor }, this.requestOptions);
    }

    /** Stops at the page with the tool: each page replaces the validators of the page before. */
    async prepareValidation(tool) {
        let page = {};
        do {
            page = await this.listPage('tools', page.nextCursor);
        } while (page.nextCursor !== undefined && !page.tools.some(({ name }) => name === tool));
    }

    callTool(name, args, { onProgress, signal } = {}) {
        const options = { ...this.requestOptions, onprogress: onProgress, signal };
        return this.client.callTool({ name, arguments: args }, undefined, options);
    }

    rawRequest(method, params) {
        return this.client.request({ method, params }, ResultSchema, this.requestOptions);
    }

    describeError(error) {
        if (!(error instanceof McpError)) return undefined;
        const message = error.message.replace(`MCP error ${error.code}: `, '');
        if (VALIDATION_ERROR.test(message)) return { client_error: message };
        return { protocol_error: { code: error.code, message, data: error.data } };
    }
}

await run(Sdk1Driver);
