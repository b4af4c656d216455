"""Parts shared by the drivers of `mcp` 2.3 and `fastmcp` 4, which uses `mcp` 2.3."""

from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from pydantic import ConfigDict

from common import Driver, Unsupported, is_validation_error

MODERN_VERSION = "2026-07-28"


class RawRequest(types.Request[dict[str, Any], str]):
    """A request with any method and parameters."""


class RawResult(types.Result):
    model_config = ConfigDict(extra="allow")


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class ModernDriver(Driver):
    """`default` and `auto` probe server/discover; `pin` sends requests without a probe."""

    eras = ("default", "auto", "2026", "pin", "legacy")
    client = None

    @asynccontextmanager
    async def connect(self):
        mode = {"legacy": "legacy", "pin": MODERN_VERSION}.get(self.options.era, "auto")
        async with self.make_client(mode) as self.client:
            if self.options.era == "2026" and self.client.protocol_version != MODERN_VERSION:
                raise RuntimeError(f"server negotiated {self.client.protocol_version} instead of {MODERN_VERSION}")
            yield

    async def on_message(self, message):
        """Counts unrequested change notifications only in the legacy era; 2026-07-28 forbids them."""
        if isinstance(message, types.ToolListChangedNotification) and not self.is_modern:
            self.tools_changed.set()

    def info(self):
        server_info = self.client.server_info
        return {
            "protocolVersion": self.client.protocol_version,
            "serverInfo": plain(server_info) if server_info else None,
            "capabilities": plain(self.client.server_capabilities),
            "instructions": self.client.instructions,
        }

    @property
    def is_modern(self):
        return self.client is not None and self.client.protocol_version == MODERN_VERSION

    def require_modern(self):
        if not self.is_modern:
            raise Unsupported(f"tasks need {MODERN_VERSION}; negotiated {self.client.protocol_version}")

    @asynccontextmanager
    async def subscribe(self):
        if not self.is_modern:
            async with super().subscribe():
                yield
            return
        async with self.listen() as subscription, anyio.create_task_group() as group:
            group.start_soon(self.await_event, subscription)
            yield
            group.cancel_scope.cancel()

    async def await_event(self, subscription):
        async for _ in subscription:
            self.tools_changed.set()

    def listen(self):
        return self.client.listen(tools_list_changed=True)

    async def complete(self, template, argument, value):
        reference = types.ResourceTemplateReference(uri=template)
        return plain(await self.client.session.complete(reference, {"name": argument, "value": value}))

    async def raw_request(self, method, params):
        return plain(await self.client.session.send_request(RawRequest(method=method, params=params), RawResult))

    def describe_error(self, error):
        if isinstance(error, MCPError):
            return {"protocol_error": plain(error.error)}
        if isinstance(error, RuntimeError) and is_validation_error(str(error)):
            return {"client_error": str(error)}
        return None
