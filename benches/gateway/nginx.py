"""nginx as the upstream with canned replies, and as a contestant that only forwards."""

from pathlib import Path

import canned
from processes import Program, free_port

# nginx limits one token of its configuration to 4,096 bytes.
TOKEN_BYTES_MAX = 3_000

CONFIGURATION = """\
daemon off;
worker_processes 1;
pid {name}.pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {name}-body;
  proxy_temp_path {name}-proxy;
  fastcgi_temp_path {name}-fastcgi;
  uwsgi_temp_path {name}-uwsgi;
  scgi_temp_path {name}-scgi;
  keepalive_requests 1000000000;
  keepalive_timeout 15s;
{content}
}}
"""

UPSTREAM = """\
  server {{
    listen 127.0.0.1:{port};
    location /json/ {{ default_type application/json; {completion} }}
    location /sse/ {{ default_type text/event-stream; {stream} }}
  }}
"""

PROXY = """\
  upstream canned {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}
  upstream paced {{ server 127.0.0.1:{paced}; }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    location / {{ proxy_pass http://canned; }}
    location /paced/ {{ proxy_pass http://paced; proxy_buffering off; }}
  }}
"""


def start_upstream(folder: Path, core: int, pieces: int) -> tuple[Program, int]:
    """Starts the upstream: a complete reply below /json/, the same text as a stream below /sse/."""
    port = free_port()
    content = UPSTREAM.format(port=port, completion=returned(canned.completion()), stream=returned(canned.stream(pieces)))
    return start("nginx-upstream", folder, core, content, port), port


def start_proxy(folder: Path, core: int, upstream: int, paced: int) -> tuple[Program, int]:
    port = free_port()
    return start("nginx-proxy", folder, core, PROXY.format(port=port, upstream=upstream, paced=paced), port), port


def start(name: str, folder: Path, core: int, content: str, port: int) -> Program:
    file = folder / f"{name}.conf"
    file.write_text(CONFIGURATION.format(name=name, content=content))
    program = Program(name, ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(file)], folder, core)
    program.wait_for_port(port)
    return program


def returned(text: str) -> str:
    """Returns the directives that answer with a text."""
    parts = [text[start : start + TOKEN_BYTES_MAX] for start in range(0, len(text), TOKEN_BYTES_MAX)]
    variables = [f"$part{len(text)}_{index}" for index in range(len(parts))]
    values = (part.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") for part in parts)
    assigned = " ".join(f"set {variable} '{value}';" for variable, value in zip(variables, values))
    return f'{assigned} return 200 "{"".join(variables)}";'
