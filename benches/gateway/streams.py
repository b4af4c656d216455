"""A client for streamed responses: the time to the first token, and many streams at once."""

import asyncio
import json
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Callable

import canned
from contestants import Target
from paced_upstream import token

ANSWER_SECONDS_MAX = 30
STREAM_SECONDS_MAX = 120
START_SECONDS = 5
SAMPLE_SECONDS = 2
# A header may end with "0", the body only after a line end.
CHUNK_END = b"\r\n0\r\n\r\n"


def message(target: Target, body: bytes, connection: str) -> bytes:
    head = f"POST {target.path} HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\nContent-Type: application/json\r\n"
    return f"{head}Connection: {connection}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def post(target: Target, body: bytes) -> tuple[int, str]:
    """Sends one request and returns the status and the body of the response."""
    with socket.create_connection(("127.0.0.1", target.port), ANSWER_SECONDS_MAX) as connection:
        connection.sendall(message(target, body, "close"))
        return parsed(b"".join(iter(lambda: connection.recv(65_536), b"")))


def first_token_ms(target: Target, requests: int) -> list[float]:
    """Returns the times from a request to its first token, over one connection."""
    body = canned.request(target.model, is_stream=True, max_tokens=2)
    request, marker = message(target, body, "keep-alive"), token(0).encode()
    times = []
    with socket.create_connection(("127.0.0.1", target.port), ANSWER_SECONDS_MAX) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(requests):
            start, received, first = time.perf_counter(), b"", None
            connection.sendall(request)
            while not received.endswith(CHUNK_END):
                piece = connection.recv(65_536)
                if not piece:
                    raise ValueError(f"the stream ended early: {received[-300:]!r}")
                received += piece
                if first is None and marker in received:
                    first = time.perf_counter() - start
            if first is None:
                raise ValueError(f"the stream has no token: {received[-300:]!r}")
            times.append(first * 1000)
    return times


@dataclass
class Streams:
    """The result of concurrent streams."""

    completed: int = 0
    tokens: int = 0
    failures: Counter = field(default_factory=Counter)
    open: int = 0
    samples: list[float] = field(default_factory=list)


async def hold(target: Target, count: int, seconds: float, tokens: int, sample: Callable[[], float]) -> Streams:
    """Keeps streams open for some time and checks every response. `sample` is called while all of them are open."""
    streams = Streams()
    end = time.monotonic() + START_SECONDS + seconds
    body = canned.request(target.model, is_stream=True, max_tokens=tokens)
    expected = "".join(token(index) for index in range(tokens))

    async def repeat(index: int) -> None:
        await asyncio.sleep(START_SECONDS * index / count)
        streams.open += 1
        while time.monotonic() < end:
            await stream_once(target, body, expected, streams)
        streams.open -= 1

    async def watch() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(SAMPLE_SECONDS)
            if streams.open == count:
                streams.samples.append(sample())

    await asyncio.gather(watch(), *(repeat(index) for index in range(count)))
    return streams


async def stream_once(target: Target, body: bytes, expected: str, streams: Streams) -> None:
    try:
        status, text = await asyncio.wait_for(exchange(target, body), STREAM_SECONDS_MAX)
        if status != 200:
            raise ValueError(f"status {status}: {text[:200]}")
        if canned.text_of_stream(text) != expected:
            raise ValueError("the text differs from what the upstream sent")
        streams.completed += 1
        streams.tokens += len(expected.split())
    except (OSError, ValueError, KeyError, asyncio.TimeoutError) as error:
        streams.failures[f"{type(error).__name__}: {error}"[:200]] += 1
        # A server that refuses connections must not turn this loop into a flood.
        await asyncio.sleep(1)


async def exchange(target: Target, body: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    try:
        writer.write(message(target, body, "close"))
        return parsed(await reader.read())
    finally:
        writer.close()


def parsed(response: bytes) -> tuple[int, str]:
    """Returns the status and the body of a response that has ended."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    if not lines[0].startswith("http/1.1 "):
        raise ValueError(f"no response: {response[:100]!r}")
    if "transfer-encoding: chunked" in lines:
        body = unchunked(body)
    return int(lines[0].split()[1]), body.decode()


def unchunked(body: bytes) -> bytes:
    parts, position = [], 0
    while True:
        line_end = body.find(b"\r\n", position)
        if line_end < 0:
            raise ValueError(f"the response was cut off after {body[-80:]!r}")
        size = int(body[position:line_end], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(body[line_end + 2 : line_end + 2 + size])
        position = line_end + 2 + size + 2


def text_of(target: Target, has_contract: bool, is_stream: bool) -> str:
    """Returns the text that a contestant answers with."""
    body = canned.request(target.model, has_contract and target.sends_schema, is_stream)
    status, response = post(target, body)
    if status != 200:
        raise ValueError(f"status {status}: {response[:500]}")
    if is_stream:
        return canned.text_of_stream(response)
    return json.loads(response)["choices"][0]["message"]["content"]
