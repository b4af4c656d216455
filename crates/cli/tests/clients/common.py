"""Shared parts of the Python drivers: arguments, scenarios and output.

A driver subclasses `Driver` with the calls of one client library. `run` connects the
driver, executes one scenario and prints one JSON document on stdout.
"""

import argparse
import json
import os
import sys
import threading
import time
import traceback
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

CHANGE_TIMEOUT_SECONDS = 20
CANCEL_TIMEOUT_SECONDS = 5
GET_STREAM_TIMEOUT_SECONDS = 2
TASK_END_STATES = ("completed", "failed", "cancelled")


def parse_arguments():
    parser = argparse.ArgumentParser(usage="%(prog)s --scenario NAME [options] (stdio COMMAND ARGS... | http URL)")
    parser.add_argument("--scenario", required=True, choices=sorted(SCENARIOS))
    parser.add_argument("--era", choices=["default", "auto", "2026", "pin", "legacy"], default="default")
    parser.add_argument("--token", help="bearer token for http")
    parser.add_argument("--tool")
    parser.add_argument("--arguments", type=json.loads, default={})
    parser.add_argument("--after-progress", action="store_true", help="accepted for clarity; cancel always waits")
    parser.add_argument("--task", help="task id")
    parser.add_argument("--uri")
    parser.add_argument("--template")
    parser.add_argument("--argument")
    parser.add_argument("--value", default="")
    parser.add_argument("--name", help="prompt name")
    parser.add_argument("--touch", type=Path)
    parser.add_argument("--content", default="")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--method", help="method of a raw request")
    parser.add_argument("--params", type=json.loads, default={}, help="parameters of a raw request")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per request")
    parser.add_argument("--limit", type=float, default=120, help="seconds until the driver gives up with exit code 3")
    parser.add_argument("transport", choices=["stdio", "http"])
    parser.add_argument("target", nargs=argparse.REMAINDER)
    return parser.parse_args()


def is_validation_error(message):
    """Recognizes the output validation errors of `mcp`, which raises plain RuntimeError for them."""
    return "structured content" in message or message.startswith("Invalid schema for tool")


class Unsupported(Exception):
    """The library cannot execute the scenario; the message says why."""


class Driver:
    """Base class of the drivers. All results are plain JSON values in wire spelling."""

    eras = ("default", "legacy")

    def __init__(self, options):
        self.options = options
        self.tools_changed = anyio.Event()
        self.get_stream_answered = anyio.Event()

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.options.token}"} if self.options.token else {}

    async def observe_response(self, response):
        """HTTP response hook: signals when the server has answered the GET of the change stream."""
        if response.request.method == "GET":
            self.get_stream_answered.set()

    @asynccontextmanager
    async def subscribe(self):
        """Waits until the server can deliver list changes; sets `tools_changed` on a change."""
        if self.options.transport == "http":
            with anyio.move_on_after(GET_STREAM_TIMEOUT_SECONDS):
                await self.get_stream_answered.wait()
        yield

    async def cancel(self, scope):
        scope.cancel()

    async def run_task(self, tool, arguments):
        created = await self.start_task(tool, arguments)
        if "taskId" not in created:
            return {"immediate": created}
        statuses = [created["status"]]
        while True:
            task = await self.get_task(created["taskId"])
            statuses.append(task["status"])
            if task["status"] in TASK_END_STATES:
                return {"created": created, "statuses": statuses, "final": task}
            await anyio.sleep(min(task.get("pollIntervalMs", 500), 1000) / 1000)

    async def start_task(self, tool, arguments):
        raise Unsupported(self.no_tasks)

    async def get_task(self, task_id):
        raise Unsupported(self.no_tasks)

    async def cancel_task(self, task_id):
        raise Unsupported(self.no_tasks)

    no_tasks = "the library speaks protocol versions up to 2025-11-25; io.modelcontextprotocol/tasks needs 2026-07-28"


async def list_all(driver, kind):
    items, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page, cursor = await driver.list_page(kind, cursor)
        items += page
        pages += 1
    return items, pages


def summarize(result):
    return {
        "isError": result.get("isError", False),
        "structuredContent": result.get("structuredContent"),
        "texts": [block["text"] for block in result.get("content", []) if block.get("type") == "text"],
        "_meta": result.get("_meta"),
    }


async def list_tools(driver, options):
    tools, pages = await list_all(driver, "tools")
    fields = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
    return driver.info() | {"tools": [{f: tool.get(f) for f in fields} for tool in tools], "pages": pages}


async def call(driver, options):
    await list_all(driver, "tools")
    return summarize(await driver.call_tool(options.tool, options.arguments))


async def progress(driver, options):
    received = []

    async def on_progress(value, total=None, message=None):
        received.append({"progress": value, "total": total, "message": message})

    result = await driver.call_tool(options.tool, options.arguments, on_progress)
    return summarize(result) | {"progress": received}


async def start_and_wait_for_progress(driver, options, group, outcome):
    """Starts the call in `group` and waits for its first progress notification or its end.

    Returns the call's cancel scope and the event that marks its end.
    """
    scope, running, done, outcome["received"] = anyio.CancelScope(), anyio.Event(), anyio.Event(), 0

    async def on_progress(value, total=None, message=None):
        outcome["received"] += 1
        running.set()

    async def execute():
        try:
            with scope:
                outcome["ended"] = "cancelled by the client"
                outcome["result"] = summarize(await driver.call_tool(options.tool, options.arguments, on_progress))
                outcome["ended"] = "with a result"
        except Exception as error:
            outcome.update(ended="with an error", error=driver.describe_error(error) or {"exception": repr(error)})
        done.set()
        running.set()

    group.start_soon(execute)
    await running.wait()
    return scope, done


async def cancel(driver, options):
    outcome = {}
    async with anyio.create_task_group() as group:
        scope, done = await start_and_wait_for_progress(driver, options, group, outcome)
        outcome["progressBefore"] = outcome["received"]
        await driver.cancel(scope)
        with anyio.move_on_after(CANCEL_TIMEOUT_SECONDS):
            await done.wait()
        if not done.is_set():
            scope.cancel()
            await done.wait()
            outcome["ended"] = f"without an answer within {CANCEL_TIMEOUT_SECONDS} s"
    del outcome["received"]
    await driver.list_page("tools", None)
    return outcome | {"usableAfterwards": True}


async def disconnect(driver, options):
    outcome = {}
    async with anyio.create_task_group() as group:
        await start_and_wait_for_progress(driver, options, group, outcome)
        print_document({"disconnected": True, "serverPids": child_pids()})
        os._exit(0)


async def changes(driver, options):
    await list_all(driver, "tools")
    async with driver.subscribe():
        options.touch.write_text(options.content)
        with anyio.move_on_after(CHANGE_TIMEOUT_SECONDS):
            await driver.tools_changed.wait()
        changed = driver.tools_changed.is_set()
        tools, _ = await list_all(driver, "tools")
    return {"changed": changed, "tools": [tool["name"] for tool in tools]}


async def many(driver, options):
    successes, failures, started = 0, [], time.monotonic()
    for _ in range(options.count):
        try:
            result = summarize(await driver.call_tool(options.tool, options.arguments))
        except Exception as error:
            result = driver.describe_error(error)
            if not result:
                raise
        if result.get("isError") is False:
            successes += 1
        else:
            failures.append(result)
    seconds = round(time.monotonic() - started, 3)
    return {"successes": successes, "count": options.count, "failures": failures[:3], "seconds": seconds}


async def each(driver, options):
    """Calls every tool whose name begins with `--tool`, without arguments."""
    tools, _ = await list_all(driver, "tools")
    names = [tool["name"] for tool in tools if tool["name"].startswith(options.tool)]
    failures = {}
    for name in names:
        try:
            result = summarize(await driver.call_tool(name, {}))
        except Exception as error:
            result = driver.describe_error(error)
            if not result:
                raise
        if result.get("isError") is not False:
            failures[name] = result
    return {"count": len(names), "failures": failures}


async def resources(driver, options):
    listed, pages = await list_all(driver, "resources")
    templates, template_pages = await list_all(driver, "resourceTemplates")
    return {"resources": listed, "pages": pages, "resourceTemplates": templates, "templatePages": template_pages}


async def prompts(driver, options):
    listed, pages = await list_all(driver, "prompts")
    return {"prompts": listed, "pages": pages}


SCENARIOS = {
    "list": list_tools,
    "call": call,
    "progress": progress,
    "cancel": cancel,
    "disconnect": disconnect,
    "changes": changes,
    "many": many,
    "each": each,
    "resources": resources,
    "prompts": prompts,
    "read": lambda driver, o: driver.read_resource(o.uri),
    "complete": lambda driver, o: driver.complete(o.template, o.argument, o.value),
    "prompt": lambda driver, o: driver.get_prompt(o.name, o.arguments),
    "task": lambda driver, o: driver.run_task(o.tool, o.arguments),
    "task-start": lambda driver, o: driver.start_task(o.tool, o.arguments),
    "task-get": lambda driver, o: driver.get_task(o.task),
    "task-cancel": lambda driver, o: driver.cancel_task(o.task),
    "raw": lambda driver, o: driver.raw_request(o.method, o.params),
}


def child_pids():
    pid = os.getpid()
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def print_document(document):
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def single(error):
    """Unwraps exception groups that hold one exception."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def execute(driver, options):
    if options.era not in driver.eras:
        return {"unsupported": f"era `{options.era}`: the library offers {', '.join(driver.eras)}"}
    async with driver.connect():
        try:
            document = await SCENARIOS[options.scenario](driver, options)
        except Unsupported as reason:
            document = {"unsupported": str(reason)}
        except Exception as error:
            document = driver.describe_error(single(error))
            if not document:
                raise
        closing = time.monotonic()
    return document | {"closeSeconds": round(time.monotonic() - closing, 2)}


def give_up(limit):
    print(f"error: no result within {limit} s", file=sys.stderr, flush=True)
    os._exit(3)


def run(driver_class):
    options = parse_arguments()
    watchdog = threading.Timer(options.limit, give_up, [options.limit])
    watchdog.daemon = True
    watchdog.start()
    try:
        document = anyio.run(execute, driver_class(options), options)
    except Exception as error:
        traceback.print_exception(single(error))
        sys.exit(1)
    print_document(document)
