"""An upstream that streams one token at a time.

    python paced_upstream.py PORT

`POST /paced/MILLISECONDS/v1/chat/completions` streams `max_tokens` tokens with this pause between them. The first token is
sent at once. Idle connections are closed, as by most model servers.
"""

import asyncio
import json
import sys

import canned

IDLE_SECONDS_MAX = 5
TOKENS_MAX = 10_000
BACKLOG = 4_096


def token(index: int) -> str:
    return f"t{index} "


async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), IDLE_SECONDS_MAX)
            lines = head.decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
            await answer(lines[0].split()[1], body, writer)
    except (asyncio.IncompleteReadError, TimeoutError, asyncio.TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()


async def answer(path: str, body: dict, writer: asyncio.StreamWriter) -> None:
    if not path.endswith("/chat/completions"):
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return
    pause = int(path.split("/")[2]) / 1000
    tokens = min(body.get("max_tokens") or body.get("max_completion_tokens") or 1, TOKENS_MAX)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(chunk(canned.first_event() + canned.text_event(token(0))))
    for index in range(1, tokens):
        await writer.drain()
        await asyncio.sleep(pause)
        writer.write(chunk(canned.text_event(token(index))))
    writer.write(chunk(canned.last_events()) + chunk(""))
    await writer.drain()


def chunk(text: str) -> bytes:
    return f"{len(text):x}\r\n{text}\r\n".encode()


async def main() -> None:
    server = await asyncio.start_server(answer_all, "127.0.0.1", int(sys.argv[1]), backlog=BACKLOG)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
