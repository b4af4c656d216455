"""An executor that takes a run over: it has to be told what was found before it came."""

import json
import sys

asked = json.load(sys.stdin)
prompt = asked["parameters"]["prompt"]
at = prompt.find('{"action":"TOOL_RETURN"')
if asked["mode"] != "start" or "What is left to do?" not in prompt or at < 0:
    sys.exit("the task or the answer is missing: " + prompt)
listed = json.loads(json.JSONDecoder().raw_decode(prompt[at:])[0]["content"])
files = [entry for entry in listed["entries"] if entry["kind"] == "file"]
result = {"files": len(files), "path": "", "line": 0, "text": ""}
print(json.dumps({"action": "NORMAL_RESPONSE", "reasoning": "told", "content": "", "parameters": result}))
