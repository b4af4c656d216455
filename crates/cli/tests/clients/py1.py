"""Drives an MCP server with Python `mcp` 1.30."""

import os
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl, BaseModel, ConfigDict

from common import Driver, is_validation_error, run


class RawResult(BaseModel):
    model_config = ConfigDict(extra="allow")


class RawRequest(BaseModel):
    method: str
    params: dict


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class Mcp1Driver(Driver):
    @asynccontextmanager
    async def connect(self):
        async with self.open_streams() as (read, write), ClientSession(
            read, write, read_timeout_seconds=timedelta(seconds=self.options.timeout), message_handler=self.on_message
        ) as self.session:
            self.initialized = await self.session.initialize()
            yield

    @asynccontextmanager
    async def open_streams(self):
        target = self.options.target
        if self.options.transport == "stdio":
            parameters = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
            async with stdio_client(parameters) as streams:
                yield streams
        else:
            timeout = httpx.Timeout(self.options.timeout)
            hooks = {"response": [self.observe_response]}
            async with httpx.AsyncClient(headers=self.headers, timeout=timeout, event_hooks=hooks) as client:
                async with streamable_http_client(target[0], http_client=client) as (read, write, _):
                    yield read, write

    async def on_message(self, message):
        if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
            self.tools_changed.set()

    def info(self):
        return {
            "protocolVersion": self.initialized.protocolVersion,
            "serverInfo": plain(self.initialized.serverInfo),
            "capabilities": plain(self.initialized.capabilities),
            "instructions": self.initialized.instructions,
        }

    async def list_page(self, kind, cursor):
        lists = {
            "tools": self.session.list_tools,
            "resources": self.session.list_resources,
            "resourceTemplates": self.session.list_resource_templates,
            "prompts": self.session.list_prompts,
        }
        page = await lists[kind](params=types.PaginatedRequestParams(cursor=cursor))
        return plain(page)[kind], page.nextCursor

    async def call_tool(self, name, arguments, on_progress=None):
        return plain(await self.session.call_tool(name, arguments, progress_callback=on_progress))

    async def cancel(self, scope):
        """Sends the cancellation by hand: this library sends none when a call is abandoned."""
        request_id = self.session._request_id - 1
        parameters = types.CancelledNotificationParams(requestId=request_id, reason="test")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=parameters)))

    async def read_resource(self, uri):
        return plain(await self.session.read_resource(AnyUrl(uri)))

    async def complete(self, template, argument, value):
        reference = types.ResourceTemplateReference(type="ref/resource", uri=template)
        return plain(await self.session.complete(reference, {"name": argument, "value": value}))

    async def get_prompt(self, name, arguments):
        return plain(await self.session.get_prompt(name, arguments))

    async def raw_request(self, method, params):
        return plain(await self.session.send_request(RawRequest(method=method, params=params), RawResult))

    def describe_error(self, error):
        if isinstance(error, McpError):
            return {"protocol_error": plain(error.error)}
        if isinstance(error, RuntimeError) and is_validation_error(str(error)):
            return {"client_error": str(error)}
        return None


run(Mcp1Driver)
