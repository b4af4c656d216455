"""A server made with the official Python SDK, on standard input and output or, with `http`, on a free port.

With `http` the first line on standard output is the address.
"""

import socket
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

server = MCPServer("official")


class Sum(BaseModel):
    total: int = Field(description="both together")
    terms: list[int]


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b, terms=[a, b])


@server.tool(structured_output=False)
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello, {name}!"


@server.tool(structured_output=False)
def words(text: str) -> list[str]:
    """Takes a text apart."""
    return text.split()


@server.tool(structured_output=False)
def picture() -> Image:
    """Draws nothing."""
    return Image(data=b"\x89PNG not really", format="png")


@server.tool(structured_output=False)
def fail(reason: str) -> str:
    """Fails."""
    raise ToolError(reason)


@server.tool(structured_output=False)
def repeat(text: str, times: int) -> str:
    """Repeats a text."""
    return text * times


@server.tool(structured_output=False)
def leave() -> str:
    """Ends the server in the middle of a call."""
    import os

    os._exit(9)


if sys.argv[1:] == ["http"]:
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = server.streamable_http_app()
    listener.listen()
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
else:
    server.run()
