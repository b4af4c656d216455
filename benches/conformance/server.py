"""Starts `llama_cpp.server` with the benchmark's weights, and restarts it after a crash.

    python server.py --model SmolLM2-135M-Instruct.Q4_1.gguf --port 8765

It prints `ready http://127.0.0.1:PORT/v1` on stdout when the server answers. The server is a child process that ends with
this one. All contestants use this server, so they have the same weights, threads, context and sampler defaults.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

CONTEXT_TOKENS = 4096
READY_SECONDS_MAX = 120
# A grammar that llama.cpp cannot parse crashes the server. It is restarted for the other tasks, up to this limit.
STARTS_MAX = 20


def command(model: str, port: int, seed: int, threads: int) -> list[str]:
    return [
        "nice", "-n", "10",
        sys.executable, "-m", "llama_cpp.server",
        "--model", model,
        "--model_alias", "smollm2-135m",
        "--host", "127.0.0.1",
        "--port", str(port),
        "--seed", str(seed),
        "--n_ctx", str(CONTEXT_TOKENS),
        "--n_threads", str(threads),
        "--n_threads_batch", str(threads),
        # The default stores the logits of every prompt token, which is slow and unused here.
        "--logits_all", "false",
        # With the default, a second request truncates the answer of the running one.
        "--interrupt_requests", "false",
        "--verbose", "false",
    ]


def wait_until_ready(base_url: str, child: subprocess.Popen) -> bool:
    """Returns False if the server ended: a request may crash it before this function sees it ready."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if child.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(f"{base_url}/models", timeout=2) as response:
                if response.status == 200:
                    return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise SystemExit(f"the server did not answer {base_url}/models within {READY_SECONDS_MAX} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="path of the GGUF file")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--seed", type=int, default=42)
    # On a loaded two-core machine two threads wait for each other: 2 tokens per second instead of 25 with one.
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    options = parser.parse_args()

    base_url = f"http://127.0.0.1:{options.port}/v1"
    # The server reads unprefixed variables such as MODEL, SEED or PORT as settings, so pass only these.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    arguments = command(options.model, options.port, options.seed, options.threads)
    children: list[subprocess.Popen] = []
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        # On SIGTERM the server would first finish its requests, even those of disconnected clients.
        for child in children:
            child.kill()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    for _ in range(STARTS_MAX):
        child = subprocess.Popen(arguments, env=environment, stdout=sys.stderr)
        children[:] = [child]
        try:
            if wait_until_ready(base_url, child):
                print(f"ready {base_url}", flush=True)
            child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if stopping:
            return 0
        print(f"the server exited with status {child.returncode}; restarting it", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
