"""Measures Slipform's gateway beside nginx, TensorZero and the LiteLLM proxy, in one run on one machine.

    python bench.py SLIPFORM                                 # everything, about twenty minutes
    python bench.py SLIPFORM --quick                         # a few minutes
    python bench.py SLIPFORM --only slipform,latency         # single contestants and parts

Contestants: nginx, tensorzero, litellm, litellm-validating, slipform, slipform-unrecorded; `direct` always runs.
Parts: throughput, latency, half (both with throughput), first-token, streams, memory, endurance.
"""

import argparse
import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import contestants
import measures
import nginx
import report
import streams
from contestants import Contestant, Upstreams
from measures import Streaming
from processes import Program, free_port
from wrk import Failed, Load

NAMES = ["nginx", "tensorzero", "litellm", "litellm-validating", "slipform", "slipform-unrecorded"]
PARTS = ["throughput", "latency", "half", "first-token", "streams", "memory", "endurance"]
PARTS_OF_ROWS = {"throughput", "latency", "half"}
DESCRIPTORS = 16_384
FIRST_TOKENS = 200


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slipform", help="path of the binary")
    parser.add_argument("--quick", action="store_true", help="one short round, 60,000 requests and half a minute of streams")
    parser.add_argument("--only", help="contestants and parts, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5, help="duration of one measurement")
    parser.add_argument("--requests", type=int, default=200_000, help="requests of the part memory")
    parser.add_argument("--streams", type=int, default=2_000, help="concurrent streams of the part endurance")
    parser.add_argument("--minutes", type=float, default=5, help="duration of the part endurance")
    parser.add_argument("--pieces", type=int, default=48, help="events of a streamed reply; 48 are four characters each")
    parser.add_argument("--cores", default="0,1", help="the core of the contestants, and that of wrk and the upstreams")
    if "--quick" in sys.argv:
        parser.set_defaults(rounds=1, seconds=2, requests=60_000, minutes=0.5)
    options = parser.parse_args()
    options.slipform = os.path.abspath(options.slipform)
    options.cores = [int(core) for core in options.cores.split(",")]
    chosen = options.only.split(",") if options.only else []
    unknown = [one for one in chosen if one not in [*NAMES, *PARTS]]
    if unknown:
        parser.error(f"--only: `{unknown[0]}` not found; use {', '.join(NAMES + PARTS)}")
    options.names = [name for name in NAMES if name in chosen] or NAMES
    options.parts = {part for part in PARTS if part in chosen} or set(PARTS)
    return options


def start(options: argparse.Namespace, folder: Path) -> dict[str, Contestant]:
    """Starts the upstreams on one core and the contestants on the other."""
    contestant_core, load_core = options.cores
    _, canned_port = nginx.start_upstream(folder, load_core, options.pieces)
    paced_port = free_port()
    here = Path(__file__).resolve().parent
    paced = Program("paced-upstream", [sys.executable, str(here / "paced_upstream.py"), str(paced_port)], folder, load_core)
    paced.wait_for_port(paced_port)
    upstreams = Upstreams(canned_port, paced_port, contestant_core, folder)
    starters = {
        "nginx": lambda: contestants.nginx_proxy(upstreams),
        "tensorzero": lambda: contestants.tensorzero(upstreams),
        "litellm": lambda: contestants.litellm(upstreams),
        "litellm-validating": lambda: contestants.litellm(upstreams, validates=True),
        "slipform": lambda: contestants.slipform(upstreams, options.slipform),
        "slipform-unrecorded": lambda: contestants.slipform(upstreams, options.slipform, is_recorded=False),
    }
    started = {"direct": contestants.direct(upstreams)}
    for name in options.names:
        progress(f"starting {name}")
        started[name] = starters[name]()
    return started


def measure(options: argparse.Namespace, started: dict[str, Contestant], load: Load) -> report.Results:
    rows = [row for row in measures.rows() if row.name in started]
    results = report.Results(rows, {}, [], None)
    for row in rows:
        measures.check(row, started[row.name])
    for number in range(options.rounds if options.parts & PARTS_OF_ROWS else 0):
        for row in rows:
            progress(f"round {number + 1} of {options.rounds}: {row.name}, {row.kind}")
            try:
                measures.measure_round(row, started[row.name], load, options.seconds, options.parts)
            except (Failed, OSError, subprocess.TimeoutExpired) as failure:
                row.failures.append(f"{type(failure).__name__}: {failure}")
    if options.parts & {"first-token", "streams"}:
        measure_streams(options, started, results)
    slipform = started.get("slipform")
    if slipform and "memory" in options.parts:
        progress(f"memory over {options.requests:,} requests")
        row = next(row for row in rows if row.name == "slipform" and row.has_contract)
        results.memory = measures.measure_memory(row, slipform, load, options.requests)
    if slipform and "endurance" in options.parts:
        progress(f"{options.streams:,} streams for {options.minutes:g} min")
        results.endurance = measures.measure_endurance(slipform, options.streams, options.minutes)
    return results


def measure_streams(options: argparse.Namespace, started: dict[str, Contestant], results: report.Results) -> None:
    # The other two differ only in requests without streaming.
    streaming = [one for name, one in started.items() if name not in ("litellm-validating", "slipform-unrecorded")]
    results.streaming = {one.name: Streaming() for one in streaming}
    for number in range(options.rounds if "first-token" in options.parts else 0):
        for one in streaming:
            progress(f"first token, round {number + 1} of {options.rounds}: {one.name}")
            times = streams.first_token_ms(one.targets["short"], FIRST_TOKENS)
            results.streaming[one.name].first_token_ms += times
    for one in streaming if "streams" in options.parts else []:
        if one.program:
            progress(f"{measures.STREAMS_FOR_MEMORY} streams: {one.name}")
            measures.measure_memory_of_streams(one, results.streaming[one.name])


def show(results: report.Results) -> int:
    """Prints the tables and returns the exit status."""
    if any(row.rates for row in results.rows):
        print("\n## Gateway\n\n" + report.figures(results))
    if results.streaming:
        print("\n## Streams\n\n" + report.streaming(results))
    if results.endurance:
        print("\n" + report.endurance(results.endurance))
    for failure in report.failures(results):
        print(f"\nFailed: {failure}")
    if results.memory:
        print("\nMemory of Slipform: " + ", ".join(f"{sent:,}: {mib:.1f} MiB" for sent, mib in results.memory))
    print("\n## Targets\n\n" + report.targets(results))
    return 1 if report.failures(results) else 0


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = arguments()
    # nginx is outside the PATH of users without privileges.
    os.environ["PATH"] += os.pathsep + "/usr/sbin"
    for program in ("nginx", "wrk", "taskset", "setpriv"):
        if not shutil.which(program):
            sys.exit(f"{program} not found; install it with your package manager")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, most), most))
    os.sched_setaffinity(0, {options.cores[1]})
    # The programs are stopped on every way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="slipform-gateway-") as folder:
        try:
            started = start(options, Path(folder))
            return show(measure(options, started, Load(options.cores[1], options.cores[0], Path(folder))))
        except (Exception, asyncio.CancelledError):
            for program in Program.started:
                progress(f"--- end of the log of {program.name}\n{program.log_end()}")
            raise
        finally:
            Program.stop_all()


if __name__ == "__main__":
    sys.exit(main())
