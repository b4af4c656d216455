"""The request that all contestants send, and the reply that the upstream repeats."""

import json

MODEL = "canned"
MAX_TOKENS = 300
PROMPT_TOKENS, COMPLETION_TOKENS = 120, 64

SCHEMA = {
    "type": "object",
    "required": ["vendor", "invoice_number", "currency", "total", "is_paid", "lines"],
    "properties": {
        "vendor": {"type": "string", "minLength": 1},
        "invoice_number": {"type": "string", "pattern": "^INV-[0-9]{5}$"},
        "currency": {"type": "string", "enum": ["EUR", "GBP", "USD"]},
        "total": {"type": "number", "minimum": 0},
        "is_paid": {"type": "boolean"},
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["article", "quantity"],
                "properties": {"article": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}

ANSWER = {
    "vendor": "Nordwind Logistics",
    "invoice_number": "INV-20417",
    "currency": "EUR",
    "total": 1284.5,
    "is_paid": False,
    "lines": [{"article": "Euro pallets", "quantity": 24}, {"article": "Stretch film", "quantity": 6}],
}
TEXT = json.dumps(ANSWER, separators=(",", ":"))

MESSAGES = [
    {"role": "system", "content": "You read invoices and return their data as JSON."},
    {
        "role": "user",
        "content": "Invoice INV-20417 of Nordwind Logistics: 24 Euro pallets at 45.50 EUR and 6 rolls of stretch film at "
        "32.08 EUR, payable within 30 days. The amount of 1284.50 EUR is still open.",
    },
]


def request(model: str, has_contract: bool = False, is_stream: bool = False, max_tokens: int = MAX_TOKENS) -> bytes:
    """Returns the body of a request."""
    body = {"model": model, "messages": MESSAGES, "max_tokens": max_tokens}
    if has_contract:
        named = {"name": "invoice", "strict": True, "schema": SCHEMA}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    if is_stream:
        body["stream"] = True
    return json.dumps(body).encode()


def completion() -> str:
    """Returns the reply to a request without streaming."""
    message = {"role": "assistant", "content": TEXT}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return json.dumps(head("chat.completion") | {"choices": [choice], "usage": usage()})


def stream(pieces: int) -> str:
    """Returns the reply to a request with streaming: the text in this number of events."""
    size = -(-len(TEXT) // pieces)
    texts = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    return first_event() + "".join(map(text_event, texts)) + last_events()


def first_event() -> str:
    return event([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])


def text_event(text: str) -> str:
    return event([{"index": 0, "delta": {"content": text}, "finish_reason": None}])


def last_events() -> str:
    end = event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    return end + event([], usage()) + "data: [DONE]\n\n"


def event(choices: list[dict], tokens: dict | None = None) -> str:
    chunk = head("chat.completion.chunk") | {"choices": choices}
    if tokens:
        chunk["usage"] = tokens
    return f"data: {json.dumps(chunk)}\n\n"


def head(kind: str) -> dict:
    return {"id": "chatcmpl-canned", "object": kind, "created": 1767225600, "model": MODEL}


def usage() -> dict:
    total = PROMPT_TOKENS + COMPLETION_TOKENS
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS, "total_tokens": total}


def text_of_stream(body: str) -> str:
    """Returns the text of a streamed response. Fails if the response did not end normally."""
    texts, reason, is_done = [], None, False
    for line in body.splitlines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or not data:
            continue
        if data == "[DONE]":
            is_done = True
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            raise ValueError(f"the stream has an error: {chunk['error']}")
        for choice in chunk["choices"]:
            texts.append(choice["delta"].get("content") or "")
            reason = choice.get("finish_reason") or reason
    if reason != "stop" or not is_done:
        raise ValueError(f"the stream is incomplete: finish_reason {reason}, end marker {is_done}")
    return "".join(texts)
