"""Finds comments that say what is left to do, and prints them as JSON: the program of a procedural agent."""

import argparse
import json
import pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--folder", default=".")
parser.add_argument("--words", default="TODO,FIXME")
parser.add_argument("--count-only", action="store_true")
arguments = parser.parse_args()

found = []
for file in sorted(pathlib.Path(arguments.folder).rglob("*.rs")):
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if any(word in line for word in arguments.words.split(",")):
            found.append({"file": str(file), "line": number, "text": line.strip()})
print(json.dumps({"total": len(found), "todos": [] if arguments.count_only else found}))
