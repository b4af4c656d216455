"""Runs the whole benchmark: starts the model server, runs every contestant over the tasks, prints the table.

    python bench.py --model SmolLM2-135M-Instruct.Q4_1.gguf --peers slipform:auto,server,instructor,pydantic-ai,baml
"""

import argparse
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="path of the GGUF file")
    options, rest = parser.parse_known_args()
    arguments = [sys.executable, os.path.join(HERE, "server.py"), "--model", options.model, "--port", str(free_port())]
    with open(os.devnull, "w") as silence:
        server = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=silence, text=True)
    try:
        word, _, base_url = server.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise SystemExit("the model server did not start; run server.py to see its error")
        peers = [sys.executable, os.path.join(HERE, "peers.py"), "--base-url", base_url, *rest]
        return subprocess.run(peers).returncode
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
