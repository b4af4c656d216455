"""Runs TensorZero's gateway, which its Python package contains: the HTTP server, without a database.

    python tensorzero_server.py CONFIGURATION

It prints `ready URL` when the gateway listens, on a port of its own choice.
"""

import sys

# The package starts this server for clients that it patches. There is no public function for it.
from tensorzero.tensorzero import _start_http_gateway


def main() -> None:
    gateway = _start_http_gateway(
        config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
    )
    print(f"ready {gateway.base_url}", flush=True)
    # The gateway runs in threads of this process until stdin is closed.
    sys.stdin.read()


if __name__ == "__main__":
    main()
