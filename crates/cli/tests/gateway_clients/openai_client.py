"""Asks with the `openai` package: parsed messages, typed tools, and streams."""

import json

import openai

from common import API_KEY, WRONG_SCHEMA, Driver, Person, get_weather, run

SAVE_PERSON = openai.pydantic_function_tool(Person, name="save_person")
GET_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
WITH_USAGE = {"include_usage": True}


def message_of(completion):
    """Returns what a program reads of a message: the parsed value, the parsed arguments, or the refusal."""
    choice = completion.choices[0]
    seen = {"finish": choice.finish_reason, "usage": completion.usage.total_tokens}
    if choice.message.refusal is not None:
        return seen | {"refusal": choice.message.refusal}
    if choice.message.tool_calls:
        return seen | {"value": choice.message.tool_calls[0].function.parsed_arguments.model_dump()}
    return seen | {"value": choice.message.parsed.model_dump()}


class OpenAIDriver(Driver):
    def __init__(self, base_url):
        super().__init__(base_url)
        self.completions = openai.OpenAI(base_url=base_url, api_key=API_KEY).chat.completions

    def ask(self, model, prompt, **options):
        return self.completions.create(model=model, messages=[{"role": "user", "content": prompt}], **options)

    def parse(self, model, prompt, **options):
        messages = [{"role": "user", "content": prompt}]
        return message_of(self.completions.parse(model=model, messages=messages, **options))

    def stream(self, model, prompt, **options):
        messages, text = [{"role": "user", "content": prompt}], ""
        with self.completions.stream(model=model, messages=messages, stream_options=WITH_USAGE, **options) as events:
            for event in events:
                if event.type == "content.delta":
                    text += event.delta
                elif event.type == "tool_calls.function.arguments.delta":
                    text += event.arguments_delta
            return message_of(events.get_final_completion()) | {"text": text}

    def schema(self, model, prompt):
        return self.parse(model, prompt, response_format=Person)

    def schema_stream(self, model, prompt):
        return self.stream(model, prompt, response_format=Person)

    def tool(self, model, prompt):
        return self.parse(model, prompt, tools=[SAVE_PERSON])

    def tool_stream(self, model, prompt):
        return self.stream(model, prompt, tools=[SAVE_PERSON])

    def text(self, model, prompt):
        completion = self.ask(model, prompt)
        choice = completion.choices[0]
        seen = {"text": choice.message.content, "finish": choice.finish_reason, "usage": completion.usage.total_tokens}
        return seen | ({"refusal": choice.message.refusal} if choice.message.refusal else {})

    def text_stream(self, model, prompt):
        seen = {"text": ""}
        for chunk in self.ask(model, prompt, stream=True, stream_options=WITH_USAGE):
            if chunk.usage:
                seen["usage"] = chunk.usage.total_tokens
            for choice in chunk.choices:
                seen["text"] += choice.delta.content or ""
                seen["finish"] = choice.finish_reason
        return seen

    def tool_loop(self, model, prompt):
        messages = [{"role": "user", "content": prompt}]
        first = self.completions.create(model=model, messages=messages, tools=[GET_WEATHER]).choices[0]
        return self.answer_calls(model, messages, first.message, first.finish_reason)

    def tool_loop_stream(self, model, prompt):
        messages = [{"role": "user", "content": prompt}]
        with self.completions.stream(model=model, messages=messages, tools=[GET_WEATHER]) as events:
            events.until_done()
            first = events.get_final_completion().choices[0]
        return self.answer_calls(model, messages, first.message, first.finish_reason)

    def answer_calls(self, model, messages, message, finish):
        """Sends the result of the only call back, and returns the text that follows."""
        [call] = message.tool_calls
        result = get_weather(**json.loads(call.function.arguments))
        messages = messages + [
            {"role": "assistant", "content": message.content, "tool_calls": [call.model_dump(exclude={"index"})]},
            {"role": "tool", "tool_call_id": call.id, "content": result},
        ]
        answer = self.completions.create(model=model, messages=messages, tools=[GET_WEATHER])
        return {"arguments": call.function.arguments, "finish": finish, "text": answer.choices[0].message.content}

    def wrong_schema(self, model, prompt):
        return {"text": self.ask(model, prompt, response_format=WRONG_SCHEMA).choices[0].message.content}

    def deadline(self, model, prompt):
        # The library sends its time limit along, so that the gateway answers in time.
        return {"text": self.ask(model, prompt, timeout=10).choices[0].message.content}


run(OpenAIDriver)
