"""Drives an MCP server with `fastmcp` 4; the task scenarios use `fastmcp-tasks`."""

import os
import sys

import httpx2
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp.client.subscriptions import listen

from common import run
from modern import ModernDriver, plain


class FastMcpDriver(ModernDriver):
    def make_client(self, mode):
        if self.options.scenario.startswith("task"):
            import fastmcp_tasks  # noqa: F401  the import alone declares the extension on every client
        return Client(
            self.make_transport(), mode=mode, timeout=self.options.timeout, message_handler=self.on_message
        )

    def make_transport(self):
        target = self.options.target
        if self.options.transport == "stdio":
            return StdioTransport(
                command=target[0], args=target[1:], env=dict(os.environ), keep_alive=False, log_file=sys.stderr
            )
        return StreamableHttpTransport(target[0], auth=self.options.token, httpx_client_factory=self.make_http_client)

    def make_http_client(self, **settings):
        return httpx2.AsyncClient(event_hooks={"response": [self.observe_response]}, **settings)

    def listen(self):
        """Opens the change stream with `mcp`: the fastmcp client has no method for it."""
        return listen(self.client.session, tools_list_changed=True)

    async def list_page(self, kind, cursor):
        lists = {
            "tools": self.client.list_tools_mcp,
            "resources": self.client.list_resources_mcp,
            "resourceTemplates": self.client.list_resource_templates_mcp,
            "prompts": self.client.list_prompts_mcp,
        }
        page = await lists[kind](cursor=cursor)
        return plain(page)[kind], page.next_cursor

    async def call_tool(self, name, arguments, on_progress=None):
        return plain(await self.client.call_tool_mcp(name, arguments, progress_handler=on_progress))

    async def read_resource(self, uri):
        return plain(await self.client.read_resource_mcp(uri))

    async def get_prompt(self, name, arguments):
        return plain(await self.client.get_prompt_mcp(name, arguments))

    async def run_task(self, tool, arguments):
        """Polls with the library; `transparent` is a second call that hides the task."""
        from fastmcp_tasks import call_tool_task

        self.require_modern()
        task = await call_tool_task(self.client, tool, arguments, raise_on_error=False)
        final = await task.wait(timeout=self.options.timeout)
        transparent = await self.call_tool(tool, arguments)
        return {
            "created": plain(task.create_result),
            "statuses": [task.create_result.status, final.status],
            "final": plain(final),
            "transparent": transparent,
        }

    async def start_task(self, tool, arguments):
        self.require_modern()
        return plain(await self.client.session.call_tool(tool, arguments, allow_claimed=True))

    async def get_task(self, task_id):
        from fastmcp_tasks.client_models import ClientGetTaskResult, GetTaskRequest, GetTaskRequestParams

        self.require_modern()
        request = GetTaskRequest(params=GetTaskRequestParams(task_id=task_id))
        return plain(await self.client.session.send_request(request, ClientGetTaskResult))

    async def cancel_task(self, task_id):
        from fastmcp_tasks.client_models import CancelTaskRequest, CancelTaskRequestParams
        from mcp_types import Result

        self.require_modern()
        request = CancelTaskRequest(params=CancelTaskRequestParams(task_id=task_id))
        acknowledged = await self.client.session.send_request(request, Result)
        return {"acknowledged": plain(acknowledged), "task": await self.get_task(task_id)}


run(FastMcpDriver)
