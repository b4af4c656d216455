"""Compares a tool call over MCP with an API call to the same agent, and with a FastMCP server that does nothing.

Usage: mcp_overhead.py SLIPFORM CALLS. Prints a Markdown table. The three are called in turns, over one connection each.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 6
START_SECONDS_MAX = 30
WARM_UP = 20
AGENT = {
    "name": "fixed",
    "description": "Returns a fixed value.",
    "type": "procedural",
    "command": ["echo", '{"greeting": "Hello"}'],
    "parameters_as": "stdin",
    "parameters_schema": {"type": "object"},
    "output_schema": {"type": "object", "properties": {"greeting": {"type": "string"}}, "required": ["greeting"]},
}
FASTMCP = """
import sys
from fastmcp import FastMCP
server = FastMCP("nothing")
@server.tool
def fixed() -> dict:
    return {"greeting": "Hello"}
server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), stateless_http=True, json_response=True, show_banner=False)
"""


class Target:
    """A server process and the call that is measured."""

    def __init__(self, process, port, path, body, is_valid):
        self.process, self.path, self.body, self.is_valid = process, path, json.dumps(body), is_valid
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.seconds, self.cpu = [], 0.0

    def call(self):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.path == "/mcp":
            headers["MCP-Protocol-Version"] = "2025-06-18"
        self.connection.request("POST", self.path, self.body, headers)
        answer = json.loads(self.connection.getresponse().read())
        if not self.is_valid(answer):
            sys.exit(f"unexpected answer: {answer}")

    def round(self, calls):
        # Servers close connections that were idle during the rounds of the others.
        self.connection.close()
        self.call()
        before = cpu_seconds(self.process.pid)
        for _ in range(calls):
            start = time.perf_counter()
            self.call()
            self.seconds.append(time.perf_counter() - start)
        self.cpu += cpu_seconds(self.process.pid) - before

    def median(self):
        return sorted(self.seconds)[len(self.seconds) // 2] * 1000

    def cpu_per_call(self):
        return self.cpu / len(self.seconds) * 1000


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_slipform(program, folder):
    (folder / "agents").mkdir()
    (folder / "agents/fixed.json").write_text(json.dumps(AGENT))
    serve = [program, "serve", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(serve, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    line = next(line for line in process.stderr if "listening on" in line)
    # The log continues; an unread pipe would fill up.
    subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    return process, int(line.split("http://")[1].split()[0].rsplit(":", 1)[1])


def start_fastmcp(folder):
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = folder / "nothing.py"
    script.write_text(FASTMCP)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, str(script), str(port)], **quiet)
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        except OSError:
            time.sleep(0.1)
    sys.exit("the FastMCP server did not start")


def main():
    program, calls = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fixed", "arguments": {}}}
    is_result = lambda answer: answer.get("result", {}).get("structuredContent") == {"greeting": "Hello"}
    is_completed = lambda answer: answer.get("status") == "completed"
    with tempfile.TemporaryDirectory() as folder:
        slipform, port = start_slipform(program, Path(folder))
        nothing, other_port = start_fastmcp(Path(folder))
        try:
            run = {"agent_name": "fixed", "parameters": {}}
            api = Target(slipform, port, "/runs?wait=60", run, is_completed)
            tool = Target(slipform, port, "/mcp", message, is_result)
            empty = Target(nothing, other_port, "/mcp", message, is_result)
            targets = [api, tool, empty]
            for target in targets:
                for _ in range(WARM_UP):
                    target.call()
            for _ in range(ROUNDS):
                for target in targets:
                    target.round(calls // ROUNDS)
        finally:
            slipform.terminate()
            nothing.terminate()
            slipform.wait()
            nothing.wait()
    print("\n## Overhead of MCP: an agent that returns a fixed value\n")
    print("| call | median, ms | ratio | CPU of the server, ms | ratio |\n|---|---|---|---|---|")
    names = ["Slipform API, `POST /runs?wait`", "Slipform MCP, `tools/call`", "FastMCP, a function without a run"]
    for name, target in zip(names, targets):
        median, cpu = target.median(), target.cpu_per_call()
        print(f"| {name} | {median:.2f} | {median / api.median():.2f} | {cpu:.2f} | {cpu / api.cpu_per_call():.2f} |")


main()
