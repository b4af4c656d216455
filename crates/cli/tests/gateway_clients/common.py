"""Runs scenarios with a client library, and prints what the program saw as one JSON object.

usage: CLIENT.py BASE_URL

A scenario is a way to ask and a model, whose name selects what the backend replies. The prompt names the scenario, so that
the test finds its calls at the backend. `PLAN` has its twin in `common.mjs`.
"""

import json
import logging
import os
import sys
import threading
import traceback
import warnings

from pydantic import BaseModel

# Every library sends a key. Without tokens, a gateway on loopback ignores it.
API_KEY = "unused"

# After this time the program ends with exit code 3 and the stack of every thread.
LIMIT_SECONDS = 300

# The models that each way to ask is tried with.
PLAN = {
    "schema": ["person", "repair", "refusal", "truncated", "invalid", "limited", "down", "unknown"],
    "schema_stream": ["person", "refusal", "truncated", "invalid"],
    "tool": ["person", "repair", "refusal", "truncated", "invalid"],
    "tool_stream": ["person", "invalid"],
    "text": ["chat", "short", "refusal"],
    "text_stream": ["chat", "short", "broken"],
    "tool_loop": ["weather"],
    "tool_loop_stream": ["weather"],
    "wrong_schema": ["person"],
    "deadline": ["silent"],
}

# An invalid JSON Schema.
WRONG_SCHEMA = {"type": "json_schema", "json_schema": {"name": "wrong", "schema": {"type": "wrong"}}}


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def last_value(values):
    """Returns the last value of a stream; `None` if the library ends the stream without one."""
    last = None
    for value in values:
        last = value
    return {"value": last and last.model_dump()}


def get_weather(city: str) -> str:
    """Returns the weather of a city."""
    return f"21 degrees in {city}"


class Driver:
    """Base class of the programs. A method for each way to ask takes the model and the prompt, and returns what it saw.

    A library that lacks a way to ask has no method for it.
    """

    def __init__(self, base_url):
        self.base_url = base_url


def describe(error):
    """Returns the class of an exception and that of its first cause, and the HTTP status and the code of either."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    seen = {"error": type(error).__name__}
    cause = type(chain[-1]).__name__
    if cause != seen["error"]:
        seen["cause"] = cause
    for name, attribute in {"status": "status_code", "code": "code"}.items():
        found = [getattr(e, attribute) for e in chain if getattr(e, attribute, None)]
        if found:
            seen[name] = found[0]
    return seen


def give_up():
    for thread, frame in sys._current_frames().items():
        print(f"thread {thread}", *traceback.format_stack(frame), sep="\n", file=sys.stderr, flush=True)
    os._exit(3)


def run(driver_class):
    watchdog = threading.Timer(LIMIT_SECONDS, give_up)
    watchdog.daemon = True
    watchdog.start()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    driver = driver_class(sys.argv[1])
    seen = {}
    for way, models in PLAN.items():
        for model in models if hasattr(driver, way) else []:
            scenario = f"{way} {model}"
            try:
                seen[scenario] = getattr(driver, way)(model, f"[{scenario}] Ada is 36.")
            except Exception as error:
                seen[scenario] = describe(error)
                print(f"--- {scenario}", file=sys.stderr)
                traceback.print_exception(error)
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()
