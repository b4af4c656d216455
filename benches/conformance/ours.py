"""Runs Slipform as one of the contestants: the `slipform` command, one process per task, or the gateway for other clients."""

import atexit
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SLIPFORM_BINARY", str(ROOT / "target/release/slipform"))
RUN_SECONDS_MAX = 300
STOP_SECONDS_MAX = 10

SETTINGS = """\
[backends.local]
kind = "openai"
base_url = "{base_url}"
model = "{model}"
max_tokens = {max_tokens}
timeout_seconds = 200
retries = 0
"""

# The gateway answers for the name of the model that all clients send.
GATEWAY = """
[gateway]
fallback_backend = "local"
"""

# The embedded model with the same weights, from SLIPFORM_MODEL, and without a server.
EMBEDDED = """\
[backends.local]
kind = "embedded"
max_tokens = {max_tokens}
timeout_seconds = 200
seed = 42
"""


class Failed(Exception):
    """The run ended with a typed failure."""

    receipt: dict | None = None


def project(tasks: list[dict], settings: str) -> str:
    """Creates a project folder with one agent per task."""
    folder = tempfile.mkdtemp(prefix="slipform-")
    pathlib.Path(folder, "slipform.toml").write_text(settings)
    agents = pathlib.Path(folder, "agents")
    agents.mkdir()
    for task in tasks:
        agent = {"name": task["id"], "default_output_schema": task["schema"]}
        if "system" in task:
            agent["system_prompt"] = task["system"]
        (agents / f"{task['id']}.json").write_text(json.dumps(agent))
    return folder


def command(folder: str, *arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([BINARY, *arguments], cwd=folder, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, **options)


def probe(folder: str) -> dict:
    """Probes the backend. The project stores the capabilities for the strategy `auto`."""
    done = command(folder, "probe", "--json")
    if done.returncode:
        raise Failed(done.stderr[-300:])
    return json.loads(done.stdout)["capabilities"]


def serve(folder: str) -> str:
    """Starts the gateway, which ends with this process, and returns its base URL."""
    server = subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:0"], cwd=folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
    atexit.register(stop, server)
    started = next((line for line in server.stderr if "listening on http://" in line), None)
    if started is None:
        raise Failed(f"slipform serve ended with status {server.wait()}")
    # An unread pipe would fill up.
    subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
    return f"{started.split('listening on ')[1].split()[0]}/v1"


def stop(server: subprocess.Popen) -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        server.kill()


def run(folder: str, task: dict, strategy: str, calls_max: int, *extra: str) -> tuple[object, dict]:
    """Runs a task and returns its result and receipt."""
    done = command(folder, "run", task["id"], "--prompt", "-", "--json", "--strategy", strategy,
                   "--max-retries", str(calls_max - 1), *extra, input=task["prompt"])
    if not done.stdout:
        raise Failed(done.stderr[-300:])
    ended = json.loads(done.stdout)
    if ended.get("status") != "completed":
        error = ended["error"]
        failed = Failed(f"{error['type']}: {error['message']} {error.get('validation_errors')}"[:300])
        failed.receipt = ended.get("receipt")
        raise failed
    return ended["result_data"], ended["receipt"]
