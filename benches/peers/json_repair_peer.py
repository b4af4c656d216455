"""Asks json_repair for every text of a JSONL file; the last line carries the seconds it took."""
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
        # The library gives an empty string where it finds nothing.
        answers.append((value != "", value))
    except Exception:
        answers.append((False, None))
seconds = time.perf_counter() - start


def plain(value):
    """NaN and infinities have no JSON form."""
    return json.loads(json.dumps(value), parse_constant=str)


with open(sys.argv[2], "w", encoding="utf-8") as out:
    for found, value in answers:
        try:
            line = json.dumps({"found": found, "value": plain(value)})
        except Exception:
            line = json.dumps({"found": False, "value": None})
        out.write(line + "\n")
    out.write(json.dumps({"seconds": seconds}) + "\n")
