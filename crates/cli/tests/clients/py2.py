"""Drives an MCP server with Python `mcp` 2.3."""

import os
from typing import ClassVar, Literal

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict

from common import run
from modern import ModernDriver, RawRequest, RawResult, plain

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"


class CreatedTask(types.Result):
    """The answer to `tools/call` when the server runs the call as a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]


class TaskRequest(RawRequest):
    """A `tasks/*` request; the library copies the task id into the Mcp-Name header."""

    name_param: ClassVar[str | None] = "taskId"


class TasksExtension(ClientExtension):
    """Declares the tasks extension; the drivers read the task themselves."""

    identifier = TASKS_EXTENSION

    def claims(self):
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, task, context):
        raise NotImplementedError("the driver polls the task")


class Mcp2Driver(ModernDriver):
    def make_client(self, mode):
        tasks = self.options.scenario.startswith("task")
        return Client(
            self.open_streams(),
            mode=mode,
            read_timeout_seconds=self.options.timeout,
            message_handler=self.on_message,
            extensions=[TasksExtension()] if tasks else None,
        )

    def open_streams(self):
        target = self.options.target
        if self.options.transport == "stdio":
            return stdio_client(StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ)))
        timeout = httpx2.Timeout(self.options.timeout)
        hooks = {"response": [self.observe_response]}
        client = httpx2.AsyncClient(headers=self.headers, timeout=timeout, event_hooks=hooks)
        return streamable_http_client(target[0], http_client=client)

    async def list_page(self, kind, cursor):
        lists = {
            "tools": self.client.list_tools,
            "resources": self.client.list_resources,
            "resourceTemplates": self.client.list_resource_templates,
            "prompts": self.client.list_prompts,
        }
        page = await lists[kind](cursor=cursor, cache_mode="refresh")
        return plain(page)[kind], page.next_cursor

    async def call_tool(self, name, arguments, on_progress=None):
        return plain(await self.client.call_tool(name, arguments, progress_callback=on_progress))

    async def read_resource(self, uri):
        return plain(await self.client.read_resource(uri))

    async def get_prompt(self, name, arguments):
        return plain(await self.client.get_prompt(name, arguments))

    async def start_task(self, tool, arguments):
        self.require_modern()
        return plain(await self.client.session.call_tool(tool, arguments, allow_claimed=True))

    async def get_task(self, task_id):
        self.require_modern()
        return plain(await self.client.session.send_request(
            TaskRequest(method="tasks/get", params={"taskId": task_id}), RawResult))

    async def cancel_task(self, task_id):
        self.require_modern()
        acknowledged = await self.client.session.send_request(
            TaskRequest(method="tasks/cancel", params={"taskId": task_id}), RawResult)
        return {"acknowledged": plain(acknowledged), "task": await self.get_task(task_id)}


run(Mcp2Driver)
