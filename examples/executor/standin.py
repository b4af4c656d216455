"""Plays the command line of a coding agent: keeps its sessions in files, and has to be told twice what JSON is."""

import argparse
import json
import pathlib
import sys
import uuid

parser = argparse.ArgumentParser()
parser.add_argument("-p", action="store_true")
parser.add_argument("--output-format", choices=["json"], required=True)
parser.add_argument("--resume")
arguments = parser.parse_args()

sessions = pathlib.Path(".sessions")
sessions.mkdir(exist_ok=True)
session = arguments.resume or str(uuid.uuid4())
file = sessions / session
heard = json.loads(file.read_text()) if arguments.resume else []
heard.append(sys.stdin.read())
file.write_text(json.dumps(heard))

if len(heard) == 1:
    result = "I had a look at the change. The loop in src/retry.rs never ends, everything else is fine."
else:
    # What it was asked is not in the correction: it is in the session.
    task = heard[0].splitlines()[-1]
    issue = {"file": "src/retry.rs", "severity": "high", "message": "no upper bound on retries"}
    result = "Of course!\n\n```json\n" + json.dumps({"task": task, "issues": [issue]}) + "\n```"
print(json.dumps({"result": result, "session_id": session, "is_error": False}))
