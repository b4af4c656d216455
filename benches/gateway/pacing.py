"""A client that sends requests at a fixed mean rate, which wrk cannot do.

The times between requests are random, as between requests of independent users (a Poisson process), with a resolution far
below a millisecond. A latency counts from the time at which the request was due, so a stalled server cannot slow the client
down unnoticed.
"""

import gc
import random
import select
import socket
import time
from dataclasses import dataclass

from contestants import Target
from streams import message
from wrk import Failed

# What this client can send while it shares a core with the upstream.
RATE_MAX = 5_000
CONNECTIONS_MAX = 256
REPLY_SECONDS_MAX = 30
# A header may end with "0", the body only after a line end.
CHUNKED_END = b"\r\n0\r\n\r\n"


@dataclass
class Paced:
    requests: int
    rate: float
    p50_ms: float
    p99_ms: float


class Connection:
    """A connection with at most one request under way."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), REPLY_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received, self.due = b"", 0.0

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, request: bytes, due: float) -> None:
        self.received, self.due = b"", due
        self.socket.sendall(request)

    def receive(self) -> bool:
        """Reads what has arrived. Returns whether the response is complete."""
        piece = self.socket.recv(65_536)
        self.received += piece
        if not piece:
            raise Failed(f"the response was cut off: {self.received[-200:]!r}")
        if not self.received.startswith(b"HTTP/1.1 200 "[: len(self.received)]):
            raise Failed(f"unexpected response: {self.received[:300]!r}")
        head_end = self.received.find(b"\r\n\r\n")
        if head_end < 0:
            return False
        head = self.received[:head_end].lower()
        if b"content-length: " in head:
            size = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            return len(self.received) >= head_end + 4 + size
        return self.received.endswith(CHUNKED_END)


def run(target: Target, body: bytes, rate: float, seconds: float) -> Paced:
    """Sends requests for some time and waits for all replies."""
    rate = min(rate, RATE_MAX)
    request = message(target, body, "keep-alive")
    idle = [Connection(target.port) for _ in range(8)]
    busy: list[Connection] = []
    latencies: list[float] = []
    gc.disable()
    try:
        begin = due = time.perf_counter()
        while True:
            now = time.perf_counter()
            while due <= now and due < begin + seconds:
                if not idle and len(busy) >= CONNECTIONS_MAX:
                    break
                connection = idle.pop() if idle else Connection(target.port)
                connection.send(request, due)
                busy.append(connection)
                due += random.expovariate(rate)
            is_over = due >= begin + seconds
            if is_over and not busy:
                break
            wait = REPLY_SECONDS_MAX if is_over or len(busy) >= CONNECTIONS_MAX else max(due - time.perf_counter(), 0)
            ready = select.select(busy, [], [], wait)[0]
            if is_over and not ready:
                raise Failed(f"no reply within {REPLY_SECONDS_MAX} s")
            for connection in ready:
                if connection.receive():
                    latencies.append(time.perf_counter() - connection.due)
                    busy.remove(connection)
                    idle.append(connection)
    finally:
        gc.enable()
        for connection in idle + busy:
            connection.socket.close()
    latencies.sort()
    p50, p99 = (latencies[int(len(latencies) * share)] * 1000 for share in (0.5, 0.99))
    return Paced(len(latencies), len(latencies) / seconds, p50, p99)
