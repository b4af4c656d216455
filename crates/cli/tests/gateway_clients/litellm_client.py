"""Asks with the LiteLLM SDK: `response_format` with a Pydantic model, tools, and streams."""

import json

import litellm

from common import API_KEY, WRONG_SCHEMA, Driver, Person, get_weather, run

# Without this the library prints hints to stdout.
litellm.suppress_debug_info = True

SAVE_PERSON = {"type": "function", "function": {"name": "save_person", "parameters": Person.model_json_schema()}}
GET_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def message_of(completion):
    choice = completion.choices[0]
    seen = {"finish": choice.finish_reason, "usage": completion.usage.total_tokens, "text": choice.message.content}
    if choice.message.tool_calls:
        seen["arguments"] = choice.message.tool_calls[0].function.arguments
    refusal = getattr(choice.message, "refusal", None)
    return seen | ({"refusal": refusal} if refusal else {})


class LiteLLMDriver(Driver):
    def complete(self, model, messages, **options):
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        name = f"openai/{model}"
        return litellm.completion(model=name, api_base=self.base_url, api_key=API_KEY, messages=messages, **options)

    def stream(self, model, messages, **options):
        chunks = self.complete(model, messages, stream=True, stream_options={"include_usage": True}, **options)
        return litellm.stream_chunk_builder(list(chunks))

    def schema(self, model, prompt):
        return message_of(self.complete(model, prompt, response_format=Person))

    def schema_stream(self, model, prompt):
        return message_of(self.stream(model, prompt, response_format=Person))

    def tool(self, model, prompt):
        return message_of(self.complete(model, prompt, tools=[SAVE_PERSON]))

    def tool_stream(self, model, prompt):
        return message_of(self.stream(model, prompt, tools=[SAVE_PERSON]))

    def text(self, model, prompt):
        return message_of(self.complete(model, prompt))

    def text_stream(self, model, prompt):
        return message_of(self.stream(model, prompt))

    def tool_loop(self, model, prompt):
        return self.answer_calls(model, prompt, self.complete(model, prompt, tools=[GET_WEATHER]))

    def tool_loop_stream(self, model, prompt):
        return self.answer_calls(model, prompt, self.stream(model, prompt, tools=[GET_WEATHER]))

    def answer_calls(self, model, prompt, completion):
        """Sends the result of the only call back, and returns the text that follows."""
        first = completion.choices[0]
        [call] = first.message.tool_calls
        result = get_weather(**json.loads(call.function.arguments))
        messages = [
            {"role": "user", "content": prompt},
            first.message,
            {"role": "tool", "tool_call_id": call.id, "content": result},
        ]
        answer = self.complete(model, messages, tools=[GET_WEATHER]).choices[0]
        return {"arguments": call.function.arguments, "finish": first.finish_reason, "text": answer.message.content}

    def wrong_schema(self, model, prompt):
        return message_of(self.complete(model, prompt, response_format=WRONG_SCHEMA))


run(LiteLLMDriver)
