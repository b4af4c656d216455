"""Runs the peers over the conformance tasks and writes one JSON line per peer and task.

    python peers.py --tasks tasks.json --base-url http://127.0.0.1:8765/v1 --out peers.jsonl

All peers use the same model server through the proxy (`proxy.py`): temperature 0, the same seed, the same `max_tokens`,
at most three calls per task. An answer counts only if `judge.py` finds it valid. A name may have a mode, such as
`instructor:json` or `pydantic-ai:prompted`; the default is the peer's best mode on this server. `gateway:openai`,
`gateway:instructor` and `gateway:pydantic-ai` are the same clients on Slipform's gateway, which calls the same server;
`gateway:instructor+json` selects a mode.
"""

import argparse
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Callable

import judge
import models
import ours
from proxy import Proxy

CALLS_MAX = 3
SEED = 42
MODEL = "smollm2-135m"
# A peer is not called again for a task that took longer, so that one slow grammar does not delay the whole benchmark.
TASK_SECONDS_MAX = 120

Run = Callable[[dict], object]


class Failed(Exception):
    """The peer could not be set up."""


@dataclass
class Endpoint:
    """The server that a client calls instead of the proxy."""

    base_url: str


def chat_messages(task: dict) -> list[dict]:
    system = [{"role": "system", "content": task["system"]}] if "system" in task else []
    return [*system, {"role": "user", "content": task["prompt"]}]


def server_json_schema(mode: str, tasks: list[dict], server: Proxy | Endpoint) -> Run:
    """The server's constrained output with the unchanged prompt of the task."""
    import openai

    client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=TASK_SECONDS_MAX)

    def run(task: dict) -> object:
        answer = client.chat.completions.create(
            model=MODEL, messages=chat_messages(task),
            response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": task["schema"]}},
        )
        return json.loads(answer.choices[0].message.content)

    return run


def instructor(mode: str, tasks: list[dict], server: Proxy | Endpoint) -> Run:
    import instructor as library
    import openai

    modes = {"json": library.Mode.JSON, "md_json": library.Mode.MD_JSON, "tools": library.Mode.TOOLS,
             "json_schema": library.Mode.JSON_SCHEMA}
    raw = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=TASK_SECONDS_MAX)
    client = library.from_openai(raw, mode=modes[mode or "tools"])

    def run(task: dict) -> object:
        model, wrapped = models.pydantic_model(task)
        answer = client.chat.completions.create(
            model=MODEL, messages=chat_messages(task), response_model=model, max_retries=CALLS_MAX - 1
        )
        return unwrapped(answer, wrapped, task)

    return run


def pydantic_ai(mode: str, tasks: list[dict], server: Proxy | Endpoint) -> Run:
    from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    kinds = {"native": NativeOutput, "prompted": PromptedOutput, "tool": ToolOutput}
    output = kinds[mode or "native"]
    backend = OpenAIChatModel(
        MODEL, provider=OpenAIProvider(base_url=server.base_url, api_key="none"),
        profile=OpenAIModelProfile(supports_json_schema_output=True, supports_json_object_output=True),
    )
    backend.client.max_retries = 0

    def run(task: dict) -> object:
        model, wrapped = models.pydantic_model(task)
        agent = Agent(backend, output_type=output(model), retries=CALLS_MAX - 1, system_prompt=task.get("system", ()))
        return unwrapped(agent.run_sync(task["prompt"]).output, wrapped, task)

    return run


def baml(mode: str, tasks: list[dict], proxy: Proxy) -> Run:
    """BAML with generated source. It does not send corrections."""
    os.environ["CONFORMANCE_BASE_URL"] = proxy.base_url
    os.environ["BAML_LOG"] = "off"
    folder = tempfile.mkdtemp(prefix="baml-")
    os.mkdir(f"{folder}/baml_src")
    with open(f"{folder}/baml_src/main.baml", "w") as file:
        file.write(models.baml_source(tasks, importlib.metadata.version("baml-py"), MODEL))
    generate = [os.path.join(os.path.dirname(sys.executable), "baml-cli"), "generate", "--from", f"{folder}/baml_src"]
    done = subprocess.run(generate, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Failed(f"baml-cli generate: {done.stdout[-600:]}{done.stderr[-600:]}")
    sys.path.insert(0, folder)
    from baml_client.sync_client import b

    def run(task: dict) -> object:
        function = getattr(b, models.baml_name(task))
        return models.without_nulls(dumped(function(task["prompt"])), task["schema"], task["schema"])

    return run


def dumped(value: object) -> object:
    if isinstance(value, list):
        return [dumped(item) for item in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return value


def unwrapped(answer: object, wrapped: bool, task: dict) -> object:
    value = answer.model_dump(mode="json")
    value = value[models.WRAP] if wrapped else value
    return models.without_nulls(value, task["schema"], task["schema"])


def slipform(mode: str, tasks: list[dict], proxy: Proxy) -> Run:
    """The `slipform` command. Its probe runs once before the tasks and does not count for any task."""
    if mode == "embedded":
        return embedded(tasks, proxy)
    settings = ours.SETTINGS.format(base_url=proxy.base_url, model=MODEL, max_tokens=proxy.max_tokens)
    folder = ours.project(tasks, settings)
    strategy, _, correction = (mode or "auto").partition("+")
    if strategy == "auto":
        with proxy.unlimited() as tally:
            print(f"slipform probe: {ours.probe(folder)}, {tally.calls} calls", file=sys.stderr)
    extra = ["--correction", correction] if correction else []
    return lambda task: ours.run(folder, task, strategy, CALLS_MAX, *extra)[0]


def embedded(tasks: list[dict], proxy: Proxy) -> Run:
    """Slipform's embedded model. Its calls do not pass through the proxy, so the receipts provide the counts."""
    folder = ours.project(tasks, ours.EMBEDDED.format(max_tokens=proxy.max_tokens))

    def run(task: dict) -> object:
        try:
            value, receipt = ours.run(folder, task, "auto", CALLS_MAX)
        except ours.Failed as failure:
            add_receipt(failure.receipt or {"calls": 1, "tokens": {"input": 0, "output": 0}, "flags": []})
            raise
        add_receipt(receipt)
        return value

    def add_receipt(receipt: dict) -> None:
        tally = proxy.tally
        tally.calls += receipt["calls"]
        tally.input_tokens += receipt["tokens"]["input"]
        tally.output_tokens += receipt["tokens"]["output"]
        tally.flags = receipt["flags"]

    return run


def gateway(mode: str, tasks: list[dict], proxy: Proxy) -> Run:
    """An unchanged client of Slipform's gateway, whose backend is the model server."""
    client, _, client_mode = (mode or "openai").partition("+")
    settings = ours.SETTINGS.format(base_url=proxy.base_url, model=MODEL, max_tokens=proxy.max_tokens)
    folder = ours.project([], settings + ours.GATEWAY)
    with proxy.unlimited() as tally:
        print(f"gateway probe: {ours.probe(folder)}, {tally.calls} calls", file=sys.stderr)
    return CLIENTS[client](client_mode, tasks, Endpoint(ours.serve(folder)))


CLIENTS = {"openai": server_json_schema, "instructor": instructor, "pydantic-ai": pydantic_ai}
PEERS = {"slipform": slipform, "gateway": gateway, "server": server_json_schema, "instructor": instructor,
         "pydantic-ai": pydantic_ai, "baml": baml}


def brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def row_for(peer: str, task: dict, run: Run, proxy: Proxy) -> dict:
    """Runs one task. Calls the peer again until its answer is valid or its calls are used."""
    tally = proxy.begin()
    started = time.monotonic()
    value, error, valid, invalid_successes = None, None, False, 0
    while not valid and tally.calls < CALLS_MAX and time.monotonic() - started < TASK_SECONDS_MAX:
        before = tally.calls
        try:
            value = run(task)
            violations = judge.violations(task["schema"], value)
            valid, error = not violations, "; ".join(violations)[:300] or None
            invalid_successes += bool(violations)
        except Exception as failure:
            error = brief(failure)
        if tally.calls == before:
            break
    row = {
        "peer": peer, "task": task["id"], "valid": valid, "value": value, "calls": tally.calls,
        "input_tokens": tally.input_tokens, "output_tokens": tally.output_tokens, "error": error,
        "invalid_successes": invalid_successes, "flags": tally.flags, "empty": judge.count_empty(task["schema"], value) if valid else 0,
        "seconds": round(time.monotonic() - started, 2),
    }
    if "expected" in task:
        row["expected"] = len(task["expected"])
        row["matched"] = judge.matches(task["expected"], value) if valid else 0
    return row


def failed_setup_row(peer: str, task: dict, error: str) -> dict:
    row = {"peer": peer, "task": task["id"], "valid": False, "value": None, "calls": 0, "input_tokens": 0,
           "output_tokens": 0, "error": error, "invalid_successes": 0, "flags": [], "empty": 0, "seconds": 0.0}
    return row | ({"expected": len(task["expected"]), "matched": 0} if "expected" in task else {})


def summary(rows: list[dict]) -> str:
    """Formats the table. The tokens per valid answer include the tokens of failed tasks."""
    lines = [f"{'peer':24} {'valid':>9} {'false':>5} {'calls':>6} {'tokens/task':>12} {'tokens/valid':>13} {'fields':>9} {'tasks exact':>12} {'empty':>6} {'closed':>7} {'s/task':>7}"]
    for peer in dict.fromkeys(row["peer"] for row in rows):
        own_rows = [row for row in rows if row["peer"] == peer]
        valid = sum(row["valid"] for row in own_rows)
        tokens = sum(row["input_tokens"] + row["output_tokens"] for row in own_rows)
        judged = [row for row in own_rows if "expected" in row]
        fields = f"{sum(row['matched'] for row in judged)}/{sum(row['expected'] for row in judged)}"
        exact = f"{sum(row['matched'] == row['expected'] for row in judged)}/{len(judged)}"
        lines.append(
            f"{peer:24} {f'{valid}/{len(own_rows)}':>9} {sum(row['invalid_successes'] for row in own_rows):>5} "
            f"{sum(row['calls'] for row in own_rows) / len(own_rows):>6.2f} {tokens / len(own_rows):>12.0f} "
            f"{tokens / valid if valid else float('nan'):>13.0f} {fields:>9} {exact:>12} "
            f"{sum(row['empty'] for row in own_rows):>6} {sum('forced_close' in row['flags'] for row in own_rows):>7} "
            f"{sum(row['seconds'] for row in own_rows) / len(own_rows):>7.1f}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "tasks.json"))
    parser.add_argument("--base-url", default="http://127.0.0.1:8765/v1")
    parser.add_argument("--out", default="peers.jsonl")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--limit", type=int, help="only the first N tasks")
    parser.add_argument("--every", type=int, default=1, help="only every n-th task, for a quick sample")
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--transcripts", help="file for every request and reply, to investigate failures")
    options = parser.parse_args()

    # Exits normally, so that the gateway is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with open(options.tasks) as file:
        tasks = json.load(file)[: options.limit : options.every]
    proxy = Proxy(options.base_url, options.max_tokens, CALLS_MAX, SEED)
    rows = []
    with open(options.out, "w") as out:
        for peer in options.peers.split(","):
            name, _, mode = peer.partition(":")
            try:
                run, setup_error = PEERS[name](mode, tasks, proxy), None
            except Exception as failure:
                setup_error = brief(failure)
            for number, task in enumerate(tasks, 1):
                row = failed_setup_row(peer, task, setup_error) if setup_error else row_for(peer, task, run, proxy)
                if proxy.unreachable:
                    print(f"model server {options.base_url} unreachable; stopped at {peer}, {task['id']}", file=sys.stderr)
                    return 1
                rows.append(row)
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                out.flush()
                print(f"{peer} {number}/{len(tasks)} {task['id']}: {'valid' if row['valid'] else 'failed'}, "
                      f"{row['calls']} calls, {row['seconds']} s", file=sys.stderr, flush=True)
                if options.transcripts and not setup_error:
                    with open(options.transcripts, "a") as file:
                        file.write(json.dumps({"peer": peer, "task": task["id"], "calls": proxy.tally.transcript}) + "\n")
    print(summary(rows), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
