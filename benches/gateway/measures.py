"""The measurements: what one contestant does with one kind of request, and what streams and long runs cost."""

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

import canned
import pacing
import streams
import wrk
from contestants import Contestant, Target
from processes import Program, busy_seconds
from wrk import Load

CONNECTIONS = 16
WARM_UP_SECONDS = 2
SEGMENT_REQUESTS = 20_000
SEGMENTS_MAX = 200
SEGMENT_SECONDS_MAX = 60
# Upstreams close idle connections after at most 15 seconds.
SETTLE_SECONDS = 20
SETTLE_SECONDS_MAX = 120
STREAMS_FOR_MEMORY = 256
TOKENS_FOR_MEMORY = 5
# Each of the long streams ends after half a minute and is replaced by a new one on a new connection.
TOKENS_PER_STREAM = 30


@dataclass
class Row:
    """A contestant with a kind of request, and one value per round for each measure."""

    name: str
    kind: str
    label: str
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    half_shares: list[float] = field(default_factory=list)
    # The share of the core that other programs used.
    others: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def is_stream(self) -> bool:
        return self.kind == "stream"

    @property
    def has_contract(self) -> bool:
        return self.kind == "contract"

    def target(self, contestant: Contestant) -> Target:
        return contestant.targets[{"plain": "json", "contract": "contract", "stream": "sse"}[self.kind]]


def rows() -> list[Row]:
    """Returns the rows of the table in order."""
    return [
        Row("direct", "plain", "the upstream without a gateway"),
        Row("nginx", "plain", "nginx as a proxy"),
        Row("tensorzero", "plain", "TensorZero"),
        Row("tensorzero", "contract", "TensorZero, JSON function (validated)"),
        Row("litellm", "plain", "LiteLLM proxy"),
        Row("litellm-validating", "contract", "LiteLLM proxy, `enable_json_schema_validation`"),
        Row("slipform", "plain", "**Slipform**, plain"),
        Row("slipform", "contract", "**Slipform**, contract, validated and recorded"),
        Row("slipform-unrecorded", "contract", "**Slipform**, contract, `record = \"none\"`"),
        Row("direct", "stream", "streaming: the upstream without a gateway"),
        Row("nginx", "stream", "streaming: nginx as a proxy"),
        Row("tensorzero", "stream", "streaming: TensorZero"),
        Row("litellm", "stream", "streaming: LiteLLM proxy"),
        Row("slipform", "stream", "streaming: **Slipform**"),
    ]


def check(row: Row, contestant: Contestant) -> None:
    """Fails unless the contestant answers with the text of the upstream."""
    text = streams.text_of(row.target(contestant), row.has_contract, row.is_stream)
    if text != canned.TEXT:
        raise ValueError(f"{row.name}, {row.kind}: unexpected answer {text[:300]!r}")


def measure_round(row: Row, contestant: Contestant, load: Load, seconds: int, parts: set[str]) -> None:
    """Measures throughput, the latency at one connection, and the latency at half load."""
    target = row.target(contestant)
    body = canned.request(target.model, row.has_contract and target.sends_schema, row.is_stream)
    wrk.run(load, target, body, WARM_UP_SECONDS, CONNECTIONS)
    program, busy = contestant.program, busy_seconds(load.contestant_core)
    before = program.cpu_seconds() if program else 0
    full = wrk.run(load, target, body, seconds, CONNECTIONS)
    row.rates.append(full.rate)
    if program:
        used = program.cpu_seconds() - before
        row.cpu_us.append(used / full.requests * 1e6)
        row.others.append(max(busy_seconds(load.contestant_core) - busy - used, 0) / full.seconds)
    if "latency" in parts:
        row.p50_ms.append(wrk.run(load, target, body, seconds, 1).p50_ms)
    if "half" in parts:
        half = pacing.run(target, body, full.rate / 2, seconds)
        row.p99_ms.append(half.p99_ms)
        row.half_shares.append(half.rate / full.rate)


@dataclass
class Streaming:
    """What streams cost a contestant."""

    first_token_ms: list[float] = field(default_factory=list)
    idle_mib: float | None = None
    busy_mib: float | None = None
    failures: Counter = field(default_factory=Counter)


def measure_memory_of_streams(contestant: Contestant, streaming: Streaming) -> None:
    """Measures the memory while many streams are open."""
    program = contestant.program
    streaming.idle_mib = program.resident_mib()
    work = streams.hold(contestant.targets["long"], STREAMS_FOR_MEMORY, 6, TOKENS_FOR_MEMORY, program.resident_mib)
    held = asyncio.run(work)
    streaming.failures = held.failures
    streaming.busy_mib = max(held.samples, default=None)


def measure_memory(row: Row, contestant: Contestant, load: Load, requests: int) -> list[tuple[int, float]]:
    """Returns the memory after each 20,000 requests."""
    target, program = row.target(contestant), contestant.program
    body = canned.request(target.model, row.has_contract and target.sends_schema, row.is_stream)
    rate = wrk.run(load, target, body, WARM_UP_SECONDS, CONNECTIONS).rate
    seconds = round(min(max(SEGMENT_REQUESTS / rate, 1), SEGMENT_SECONDS_MAX))
    sent, samples = 0, []
    for _ in range(SEGMENTS_MAX):
        sent += wrk.run(load, target, body, seconds, CONNECTIONS).requests
        samples.append((sent, program.resident_mib()))
        if sent >= requests:
            break
    return samples


@dataclass
class Endurance:
    """The result of many concurrent streams over minutes."""

    count: int
    minutes: float
    held: streams.Streams
    descriptors_before: int
    descriptors_after: int


def measure_endurance(contestant: Contestant, count: int, minutes: float) -> Endurance:
    program = contestant.program
    # Connections that earlier measurements left open would hide a leak.
    before = settled_descriptors(program)
    work = streams.hold(contestant.targets["long"], count, minutes * 60, TOKENS_PER_STREAM, program.resident_mib)
    held = asyncio.run(work)
    return Endurance(count, minutes, held, before, settled_descriptors(program))


def settled_descriptors(program: Program) -> int:
    """Returns the number of descriptors once it does not change any longer."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    count, since = program.descriptors(), time.monotonic()
    while time.monotonic() < min(since + SETTLE_SECONDS, deadline):
        time.sleep(1)
        current = program.descriptors()
        if current != count:
            count, since = current, time.monotonic()
    return count


def median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
