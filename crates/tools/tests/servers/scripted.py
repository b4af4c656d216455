"""An MCP server on standard input and output that misbehaves as its first argument says.

It uses nothing but the standard library: what it gets wrong is its own doing, message by message.
"""

import json
import os
import sys

fault = sys.argv[1]
OBJECT = {"type": "object"}


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def die(words, status):
    print(words, file=sys.stderr, flush=True)
    os._exit(status)


def tools(cursor):
    """The page of the list that starts at this cursor, and where the next one starts."""
    plain = {"name": "plain", "description": "d", "inputSchema": OBJECT}
    if fault == "bad-input":
        return [{**plain, "inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}}}}], None
    if fault == "bad-output":
        return [{**plain, "outputSchema": {"type": "object", "required": "a"}}], None
    if fault == "outside-reference":
        return [{**plain, "inputSchema": {"$ref": "http://127.0.0.1:9/schema.json"}}], None
    if fault == "twins":
        return [plain, plain], None
    if fault == "many":
        start = int(cursor or 0)
        return [{**plain, "name": f"tool{start + i}"} for i in range(100)], str(start + 100)
    if fault == "endless":
        return [], "again"
    if fault == "stays":
        return [{**plain, "name": "first"}, {**plain, "name": "second"}], None
    if fault == "pages":
        return [{**plain, "name": f"page{cursor or 0}"}], {None: "1", "1": "2", "2": None}[cursor]
    if fault == "long-description":
        return [{**plain, "description": "d" * 40_000}], None
    if fault == "long-schema":
        return [{**plain, "inputSchema": {"type": "object", "description": "d" * 300_000}}], None
    if fault == "long-list":
        return [{**plain, "description": "d" * 200_000}], None
    if fault == "bad-name":
        return [{**plain, "name": "two words"}], None
    if fault in ("breaks-promise", "no-structure"):
        return [{**plain, "outputSchema": {"type": "object", "required": ["colour"]}}], None
    return [plain], None


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def ask(method, params):
    """What comes of asking the client for something."""
    say({"id": method, "method": method, "params": params})
    while True:
        message = hear()
        if message.get("id") == method:
            return message.get("result", message.get("error"))


def called(id, arguments):
    if fault == "dies":
        die(f"lost the database, token {os.environ.get('TOKEN')}", 3)
    if fault == "closes":
        os.close(1)
        return
    if fault == "hangs-in-call":
        while True:
            message = hear()
            if message.get("method") == "notifications/cancelled":
                with open(sys.argv[2], "w") as pipe:
                    pipe.write("cancelled" if message["params"]["requestId"] == id else "another one")
    if fault == "huge" and arguments.get("bytes"):
        say({"id": id, "result": text("x" * arguments["bytes"])})
        return
    if fault == "refuses":
        say({"id": id, "error": {"code": -32602, "message": f"no such colour; token {os.environ.get('TOKEN')}"}})
        return
    if fault == "shouts":
        say({"id": id, "result": {**text("no! " * 100_000), "isError": True}})
        return
    if fault == "nonsense":
        say({"id": id, "result": {"tools": []}})
        return
    if fault == "breaks-promise":
        say({"id": id, "result": {"content": [], "structuredContent": {"color": 1}}})
        return
    if fault == "changes":
        say({"method": "notifications/tools/list_changed"})
    if fault == "noise":
        print("about to answer", flush=True)
    if fault == "asks":
        message = {"role": "user", "content": {"type": "text", "text": "Hi"}}
        answers = [
            ask("sampling/createMessage", {"messages": [message], "maxTokens": 5}),
            ask("elicitation/create", {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}),
            ask("roots/list", {}),
        ]
        say({"id": id, "result": {"content": [], "structuredContent": {"answers": answers}}})
        return
    say({"id": id, "result": text("done")})


if fault == "ends":
    die("needs a licence", 7)
if fault == "garbage":
    print("Welcome to the server!", flush=True)
if fault == "stays":
    held = open(sys.argv[2], "w")
    print("begun", file=held, flush=True)
while True:
    message = hear()
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        if fault in ("hangs", "garbage"):
            continue
        if fault == "refuses-greeting":
            say({"id": id, "error": {"code": -32600, "message": "too old"}})
            continue
        if fault == "ends-at-greeting":
            die("no configuration", 2)
        if fault == "noise":
            print("starting up", flush=True)
        info = {"name": "scripted", "version": "1"}
        version = message["params"]["protocolVersion"]
        say({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        if fault == "ends-at-list":
            die("no tools today", 4)
        page, following = tools((message.get("params") or {}).get("cursor"))
        say({"id": id, "result": {"tools": page, **({"nextCursor": following} if following else {})}})
    elif method == "tools/call":
        called(id, message["params"].get("arguments") or {})
    elif id is not None and method:
        say({"id": id, "error": {"code": -32601, "message": "unknown method"}})
