"""An HTTP proxy between the peers and the model server. It counts calls and tokens, and sets the same parameters for all.

The proxy overwrites `max_tokens`, temperature (0) and seed of every request. A request with the same messages as an
earlier one of its task would get the same answer, so the proxy sends it with REPEAT_TEMPERATURE and another seed. It
refuses calls beyond the limit.

The proxy rewrites three forms that the server does not support, but every OpenAI server does:

- `response_format` of type `json_schema` becomes `json_object` with a `schema`.
- Null assistant content becomes an empty text.
- A list of text parts becomes one text.
"""

import contextlib
import http.client
import json
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CALL_SECONDS_MAX = 180
REPEAT_TEMPERATURE = 0.5
RESTART_SECONDS_MAX = 40


@dataclass
class Tally:
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    flags: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    transcript: list[dict] = field(default_factory=list)


class Proxy:
    def __init__(self, upstream: str, max_tokens: int, calls_max: int, seed: int):
        self.upstream = urllib.parse.urlsplit(upstream)
        self.max_tokens = max_tokens
        self.calls_max = calls_max
        self.seed = seed
        self.tally = Tally()
        # Set when the server does not come back: later failures are not the peer's and must not count.
        self.unreachable = False
        self.lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Forwards requests such as `GET /v1/models` unchanged."""
                upstream = proxy.upstream
                connection = http.client.HTTPConnection(upstream.hostname, upstream.port, timeout=CALL_SECONDS_MAX)
                connection.request("GET", self.path)
                response = connection.getresponse()
                self.respond(response.status, response.read())

            def respond(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                self.respond(*proxy.forward(json.loads(body)))

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def begin(self) -> Tally:
        """Starts a new tally for the next task."""
        self.tally = Tally()
        return self.tally

    @contextlib.contextmanager
    def unlimited(self):
        """Lifts the limit for calls that belong to no task, such as a probe."""
        limit, self.calls_max = self.calls_max, 1_000
        try:
            yield self.begin()
        finally:
            self.calls_max = limit

    def forward(self, request: dict) -> tuple[int, bytes]:
        with self.lock:
            tally = self.tally
            if tally.calls >= self.calls_max:
                return 429, json.dumps({"error": {"message": f"more than {self.calls_max} calls", "type": "limit"}}).encode()
            tally.calls += 1
            request = supported(request)
            key = json.dumps(request["messages"], sort_keys=True)
            repeats = tally.seen.count(key)
            tally.seen.append(key)
            request.update(max_tokens=self.max_tokens, stream=False, seed=self.seed + repeats,
                           temperature=REPEAT_TEMPERATURE if repeats else 0.0)
            try:
                status, answer = self.send(request)
            except OSError as error:
                status, answer = 502, json.dumps({"error": {"message": str(error), "type": "server"}}).encode()
            except http.client.HTTPException as error:
                status, answer = 502, json.dumps({"error": {"message": repr(error), "type": "server"}}).encode()
            reply = decoded(answer)
            usage = reply.get("usage") or {}
            tally.input_tokens += usage.get("prompt_tokens", 0)
            tally.output_tokens += usage.get("completion_tokens", 0)
            tally.transcript.append({"request": request, "status": status, "reply": reply})
            return status, answer

    def send(self, request: dict) -> tuple[int, bytes]:
        """Sends a request. After a refused connection it waits, since server.py restarts a crashed server."""
        deadline = time.monotonic() + RESTART_SECONDS_MAX
        while True:
            try:
                return self.send_once(request)
            except ConnectionRefusedError:
                if self.unreachable or time.monotonic() > deadline:
                    self.unreachable = True
                    raise
                time.sleep(0.5)

    def send_once(self, request: dict) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=CALL_SECONDS_MAX)
        try:
            connection.request("POST", f"{self.upstream.path}/chat/completions", json.dumps(request),
                               {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def decoded(answer: bytes) -> dict:
    try:
        reply = json.loads(answer)
    except ValueError:
        return {"text": answer.decode(errors="replace")}
    return reply if isinstance(reply, dict) else {"value": reply}


def supported(request: dict) -> dict:
    request = dict(request)
    request.pop("max_completion_tokens", None)
    request.pop("stream_options", None)
    response_format = request.get("response_format") or {}
    if response_format.get("type") == "json_schema":
        request["response_format"] = {"type": "json_object", "schema": response_format["json_schema"]["schema"]}
    request["messages"] = [with_text(message) for message in request["messages"]]
    return request


def with_text(message: dict) -> dict:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if part.get("type") == "text")
    return {**message, "content": content or ""}
