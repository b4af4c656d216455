"""Repairs every text of a JSONL file with json_repair and writes one answer per line; the last line has the seconds."""
import json
import sys
import time

import json_repair

texts = [json.loads(line)["text"] for line in open(sys.argv[1], encoding="utf-8")]
answers = []
start = time.perf_counter()
for text in texts:
    try:
        value = json_repair.loads(text)
        # The library returns an empty string if it finds no JSON.
        answers.append((value != "", value))
    except Exception:
        answers.append((False, None))
seconds = time.perf_counter() - start


def without_nan(value):
    """Replaces NaN and infinities, which JSON cannot represent, by strings."""
    return json.loads(json.dumps(value), parse_constant=str)


with open(sys.argv[2], "w", encoding="utf-8") as out:
    for found, value in answers:
        try:
            line = json.dumps({"found": found, "value": without_nan(value)})
        except Exception:
            line = json.dumps({"found": False, "value": None})
        out.write(line + "\n")
    out.write(json.dumps({"seconds": seconds}) + "\n")
