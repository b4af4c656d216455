"""Lets the command line of a coding agent answer for a backend of kind "command".

    command = ["python3", "adapter.py", "some-agent", "-p", "--output-format", "json"]

What follows adapter.py is started once for every call, in the project's folder. It reads its prompt on standard
input and prints one JSON object: `result` is its answer, `session_id` the name that it knows the session by. To go
on with that session it is started with `--resume` and the name. Other programs want other words: change `ask`.
"""

import json
import pathlib
import subprocess
import sys


def ask(command, prompt, resume):
    """Starts the program and gives what it printed."""
    if resume:
        command = [*command, "--resume", resume]
    ended = subprocess.run(command, input=prompt, stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{command[0]} ended with status {ended.returncode}")
    answer = json.loads(ended.stdout)
    if answer.get("is_error"):
        sys.exit(f"{command[0]} failed: {answer.get('result')}")
    return answer


def main():
    call = json.load(sys.stdin)
    kept = pathlib.Path(".slipform/executor") / call["session_id"]
    prompt = call["parameters"]["prompt"]
    resume = None
    if call["mode"] == "resume":
        resume = kept.read_text()
    else:
        # The system prompt says what the result has to look like.
        prompt = f"{call['agent_blueprint'].get('system_prompt', '')}\n\n{prompt}".strip()
    answer = ask(sys.argv[1:], prompt, resume)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(answer["session_id"])
    print(answer["result"])


main()
