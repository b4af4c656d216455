"""Runs wrk and reads its result."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from contestants import Target

SCRIPT = Path(__file__).resolve().parent / "wrk.lua"
RUN_SECONDS_EXTRA = 60
REPLY_SECONDS_MAX = 30


class Failed(Exception):
    """A contestant did not answer all requests."""


@dataclass
class Load:
    """The load generator: its core, that of the contestants, and a folder for bodies of requests."""

    core: int
    contestant_core: int
    folder: Path


@dataclass
class Result:
    requests: int
    seconds: float
    p50_ms: float
    failed: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def run(load: Load, target: Target, body: bytes, seconds: int, connections: int) -> Result:
    """Sends a request again and again."""
    file = load.folder / "body.json"
    file.write_bytes(body)
    url = f"http://127.0.0.1:{target.port}{target.path}"
    command = ["taskset", "-c", str(load.core), "wrk", "--threads", "1", "--connections", str(connections)]
    command += ["--duration", f"{seconds}s", "--timeout", f"{REPLY_SECONDS_MAX}s", "--script", str(SCRIPT), url]
    command += ["--", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + RUN_SECONDS_EXTRA)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise Failed(f"wrk failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    result = Result(**json.loads(line.removeprefix("RESULT ")))
    if not result.requests:
        raise Failed(f"no response from {url} within {seconds} s")
    if result.failed:
        raise Failed(f"{result.failed} of {result.requests} requests to {url} failed")
    return result
