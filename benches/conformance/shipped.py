"""Measures how many runs of the shipped agents on the embedded model end with a valid result.

    python shipped.py [--agents planning,answer] [--every N] [--out rows.jsonl]

Each run is one `slipform run` in a new project, without a server, a key or a network. Another validator checks each
result again. The exit status is 1 if the rate is below the target.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import judge
import ours

HERE = pathlib.Path(__file__).resolve().parent
TARGET = 0.95
SECONDS_MAX = 900


def project(files: dict[str, str]) -> str:
    folder = tempfile.mkdtemp(prefix="slipform-shipped-")
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def contract(folder: str, agent: str) -> dict | None:
    shown = json.loads(ours.command(folder, "agents", "show", agent, "--json").stdout)
    schema = shown.get("output_schema") or shown.get("default_output_schema")
    if isinstance(schema, str):
        schema = json.loads(ours.command(folder, "schemas", "export", schema).stdout)
    return schema


def run(folder: str, agent: str, task: str | dict) -> dict:
    """Performs one run and returns its row of the table."""
    parameters = {"prompt": task} if isinstance(task, str) else task
    flags = [word for name, value in parameters.items() if name != "prompt"
             for word in ("--param", f"{name}={value if isinstance(value, str) else json.dumps(value)}")]
    prompt = ["--prompt", parameters["prompt"]] if "prompt" in parameters else []
    began = time.monotonic()
    row = {"agent": agent, "task": task, "valid": False, "empty": 0, "closed": False, "calls": 0, "retries": 0, "error": None}
    command = [ours.BINARY, "run", agent, *prompt, *flags, "--json"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return {**row, "error": f"timed out after {SECONDS_MAX} s", "seconds": SECONDS_MAX}
    row["seconds"] = round(time.monotonic() - began, 1)
    if not done.stdout:
        return {**row, "error": done.stderr[-300:]}
    ended = json.loads(done.stdout)
    receipt = ended.get("receipt") or {}
    row |= {"calls": receipt.get("calls", 0), "retries": receipt.get("retries", 0), "closed": "forced_close" in receipt.get("flags", [])}
    if ended["status"] != "completed":
        error = ended["error"]
        return {**row, "error": f"{error['type']}: {error['message']} {error.get('validation_errors')}"[:400]}
    schema, data = contract(folder, agent), ended.get("result_data")
    if schema is None:
        text = ended.get("result_text") or ""
        return {**row, "valid": True, "empty": int(not text.strip()), "result": text}
    violations = judge.violations(schema, data)
    return {**row, "valid": not violations, "error": "; ".join(violations) or None, "empty": judge.count_empty(schema, data), "result": data}


def table(rows: list[dict]) -> str:
    lines = [f"{'agent':14} {'valid':>9} {'first':>6} {'calls':>6} {'empty':>6} {'closed':>7} {'s/run':>7}"]
    for agent in [*dict.fromkeys(row["agent"] for row in rows), None]:
        own_rows = [row for row in rows if agent in (row["agent"], None)]
        valid = [row for row in own_rows if row["valid"]]
        lines.append(
            f"{agent or 'all':14} {len(valid):>3} of {len(own_rows):>2} {sum(row['retries'] == 0 for row in valid):>6} "
            f"{sum(row['calls'] for row in own_rows):>6} {sum(row['empty'] > 0 for row in valid):>6} "
            f"{sum(row['closed'] for row in valid):>7} {sum(row['seconds'] for row in own_rows) / len(own_rows):>7.1f}"
        )
    rate = sum(row["valid"] for row in rows) / len(rows)
    empty = sum(row["empty"] > 0 for row in rows) / len(rows)
    closed = sum(row["closed"] for row in rows) / len(rows)
    lines.append(f"valid results {rate:.1%} (target {TARGET:.0%}); with empty parts {empty:.1%}, with a forced close {closed:.1%}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", help="only these agents, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="only every n-th task of each agent")
    parser.add_argument("--out", help="file for all rows, as JSON lines")
    options = parser.parse_args()
    data = json.loads((HERE / "shipped.json").read_text())
    agents = options.agents.split(",") if options.agents else list(data["tasks"])
    rows = []
    out = open(options.out, "w") if options.out else None
    for agent in agents:
        for task in data["tasks"][agent][:: options.every]:
            row = run(project(data["project"]), agent, task)
            rows.append(row)
            print(f"{agent}: {'valid' if row['valid'] else row['error']} ({row['seconds']:.0f} s)", file=sys.stderr, flush=True)
            if out:
                print(json.dumps(row), file=out, flush=True)
    print(table(rows))
    return int(sum(row["valid"] for row in rows) < TARGET * len(rows))


if __name__ == "__main__":
    sys.exit(main())
