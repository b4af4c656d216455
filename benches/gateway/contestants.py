"""Starts the contestants: each is an HTTP server in front of the same two upstreams."""

import json
import os
import sys
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

import canned
import nginx
from processes import Program, free_port

HERE = Path(__file__).resolve().parent
PATH = "/v1/chat/completions"

# Pauses of the paced upstream in milliseconds: for the time to the first token, and for concurrent streams.
PAUSES = {"short": 10, "long": 1_000}


@dataclass
class Target:
    """An address with a model that leads to one of the upstreams."""

    port: int
    path: str
    model: str
    sends_schema: bool = True


@dataclass
class Contestant:
    """A server under test. Requests that go to the upstream directly have no program."""

    name: str
    program: Program | None
    targets: dict[str, Target]


@dataclass
class Upstreams:
    """The ports of the upstreams, and where the contestants work."""

    canned: int
    paced: int
    core: int
    folder: Path

    def urls(self) -> dict[str, str]:
        """Returns the base URL of each kind of upstream."""
        canned_url, paced_url = f"http://127.0.0.1:{self.canned}", f"http://127.0.0.1:{self.paced}"
        paced = {kind: f"{paced_url}/paced/{pause}/v1" for kind, pause in PAUSES.items()}
        return {"json": f"{canned_url}/json/v1", "sse": f"{canned_url}/sse/v1"} | paced

    def subfolder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder


def direct(upstreams: Upstreams) -> Contestant:
    def target(url: str) -> Target:
        parts = urllib.parse.urlsplit(url)
        return Target(parts.port, f"{parts.path}/chat/completions", canned.MODEL)

    urls = upstreams.urls()
    targets = {kind: target(url) for kind, url in urls.items()}
    return Contestant("direct", None, targets | {"contract": targets["json"]})


def nginx_proxy(upstreams: Upstreams) -> Contestant:
    program, port = nginx.start_proxy(upstreams.subfolder("nginx"), upstreams.core, upstreams.canned, upstreams.paced)
    through = {kind: Target(port, target.path, target.model) for kind, target in direct(upstreams).targets.items()}
    return Contestant("nginx", program, through)


TENSORZERO = """\
[gateway]
disable_pseudonymous_usage_analytics = true
observability.enabled = false

[functions.invoice]
type = "json"
output_schema = "schema.json"
[functions.invoice.variants.only]
type = "chat_completion"
model = "json"
json_mode = "strict"
"""

TENSORZERO_MODEL = """
[models.{kind}]
routing = ["upstream"]
[models.{kind}.providers.upstream]
type = "openai"
api_base = "{url}/"
model_name = "{model}"
api_key_location = "none"
"""


def tensorzero(upstreams: Upstreams) -> Contestant:
    """TensorZero's gateway. It validates the answers of JSON functions only."""
    folder = upstreams.subfolder("tensorzero")
    (folder / "schema.json").write_text(json.dumps(canned.SCHEMA))
    models = (TENSORZERO_MODEL.format(kind=kind, url=url, model=canned.MODEL) for kind, url in upstreams.urls().items())
    (folder / "tensorzero.toml").write_text(TENSORZERO + "".join(models))
    command = [sys.executable, str(HERE / "tensorzero_server.py"), "tensorzero.toml"]
    program = Program("tensorzero", command, folder, upstreams.core)
    url = urllib.parse.urlsplit(program.wait_for_line("ready ").split()[1])
    path = f"{url.path}/chat/completions"
    targets = {kind: Target(url.port, path, f"tensorzero::model_name::{kind}") for kind in upstreams.urls()}
    function = Target(url.port, path, "tensorzero::function_name::invoice", sends_schema=False)
    return Contestant("tensorzero", program, targets | {"contract": function})


# Without these the proxy downloads a list of prices, and refuses to start without a key of its own.
LITELLM_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_MODE": "PRODUCTION",
}


def litellm(upstreams: Upstreams, validates: bool = False) -> Contestant:
    name = "litellm-validating" if validates else "litellm"
    folder, port = upstreams.subfolder(name), free_port()
    models = [
        {"model_name": kind, "litellm_params": {"model": f"openai/{canned.MODEL}", "api_base": url, "api_key": "none"}}
        for kind, url in upstreams.urls().items()
    ]
    settings = {"enable_json_schema_validation": validates}
    # JSON is YAML.
    (folder / "config.yaml").write_text(json.dumps({"model_list": models, "litellm_settings": settings}))
    proxy = os.path.join(os.path.dirname(sys.executable), "litellm")
    command = [proxy, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    program = Program(name, command, folder, upstreams.core, LITELLM_ENVIRONMENT)
    program.wait_for_port(port)
    targets = {kind: Target(port, PATH, kind) for kind in upstreams.urls()}
    return Contestant(name, program, targets | {"contract": targets["json"]})


SLIPFORM = """\
default_backend = "sse"

[gateway]
record = "{record}"
"""

SLIPFORM_BACKEND = """
[backends.{kind}]
kind = "openai"
base_url = "{url}"
model = "{model}"
max_concurrency = 4096
"""


def slipform(upstreams: Upstreams, binary: str, is_recorded: bool = True) -> Contestant:
    name = "slipform" if is_recorded else "slipform-unrecorded"
    folder = upstreams.subfolder(name)
    urls = upstreams.urls()
    backends = (SLIPFORM_BACKEND.format(kind=kind, url=url, model=canned.MODEL) for kind, url in urls.items())
    record = "summary" if is_recorded else "none"
    (folder / "slipform.toml").write_text(SLIPFORM.format(record=record) + "".join(backends))
    program = Program(name, [binary, "serve", "--listen", "127.0.0.1:0"], folder, upstreams.core)
    listening = program.wait_for_line("listening on http://127.0.0.1:")
    port = int(listening.split("http://127.0.0.1:")[1].split()[0])
    targets = {kind: Target(port, PATH, kind) for kind in urls}
    return Contestant(name, program, targets | {"contract": targets["json"]})
