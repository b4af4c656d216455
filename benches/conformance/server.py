"""Starts `llama_cpp.server` with the benchmark's weights, waits until it answers, and stops it with this process.

    python server.py --model SmolLM2-135M-Instruct.Q4_1.gguf --port 8765

The line `ready http://127.0.0.1:PORT/v1` on stdout says that requests are served. The server is a child process that
ends with this one. Every peer and our own product talk to this one server, so all of them have the same weights,
threads, context and sampler defaults.
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
# A grammar that llama.cpp cannot parse ends the process with a segmentation fault. One task must not cost the others
# their server, so it is started again; a server that keeps dying is given up on.
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
        # The default keeps the logits of every prompt token, which is slow and unused here.
        "--logits_all", "false",
        # Otherwise a second request cuts the running one short, which would count as a truncated answer.
        "--interrupt_requests", "false",
        "--verbose", "false",
    ]


def wait_until_ready(base_url: str, child: subprocess.Popen) -> bool:
    """False when the server ended: requests may come, and crash it, before it was seen to be ready."""
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
    parser.add_argument("--model", required=True, help="path of the .gguf file")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--seed", type=int, default=42)
    # Two busy threads on a loaded two-core machine wait for each other: 2 tokens a second instead of 25 with one.
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    options = parser.parse_args()

    base_url = f"http://127.0.0.1:{options.port}/v1"
    # The server reads unprefixed environment variables such as MODEL, SEED or PORT as settings; give it none of ours.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    arguments = command(options.model, options.port, options.seed, options.threads)
    children: list[subprocess.Popen] = []
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        # Not SIGTERM: the server would first finish the requests it holds, even those whose clients are gone.
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
        print(f"the server ended with status {child.returncode}; starting it again", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
