"""Asks with LlamaIndex's `OpenAI`: structured prediction with a schema and with function calling, and chats.

The class accepts only names of OpenAI's models, so the gateway has a route from such a name to each backend.
"""

import json
from pathlib import Path

from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.core.types import PydanticProgramMode
from llama_index.llms.openai import OpenAI

from common import API_KEY, WRONG_SCHEMA, Driver, Person, get_weather, last_value, run

# The name with which the gateway routes requests to each backend. The test writes these routes to `slipform.toml`.
NAMES = json.loads(Path(__file__).with_name("routes.json").read_text())
UNROUTED = "gpt-4.1-nano"
PROMPT = PromptTemplate("{request}")
WITH_USAGE = {"stream_options": {"include_usage": True}}


def usage_of(response):
    return response.additional_kwargs["total_tokens"]


class LlamaIndexDriver(Driver):
    def llm(self, model, **options):
        # The library repeats requests itself and lets the SDK repeat each of them: 12 requests in a minute by default.
        if model == "down":
            options["max_retries"] = 1
        return OpenAI(model=NAMES.get(model, UNROUTED), api_base=self.base_url, api_key=API_KEY, **options)

    def function_llm(self, model):
        return self.llm(model, pydantic_program_mode=PydanticProgramMode.FUNCTION)

    def schema(self, model, prompt):
        response = self.llm(model).as_structured_llm(Person).chat([ChatMessage(prompt)])
        return {"value": response.raw.model_dump()}

    def schema_stream(self, model, prompt):
        return last_value(self.llm(model).stream_structured_predict(Person, PROMPT, request=prompt))

    def tool(self, model, prompt):
        person = self.function_llm(model).structured_predict(Person, PROMPT, request=prompt)
        return {"value": person.model_dump()}

    def tool_stream(self, model, prompt):
        return last_value(self.function_llm(model).stream_structured_predict(Person, PROMPT, request=prompt))

    def text(self, model, prompt):
        response = self.llm(model).chat([ChatMessage(prompt)])
        finish = response.raw.choices[0].finish_reason
        return {"text": response.message.content, "finish": finish, "usage": usage_of(response)}

    def text_stream(self, model, prompt):
        responses = list(self.llm(model, additional_kwargs=WITH_USAGE).stream_chat([ChatMessage(prompt)]))
        text = "".join(response.delta for response in responses)
        *_, finish = (choice.finish_reason for response in responses for choice in response.raw.choices)
        return {"text": text, "finish": finish, "usage": usage_of(responses[-1])}

    def tool_loop(self, model, prompt):
        tools, history = [FunctionTool.from_defaults(get_weather)], [ChatMessage(prompt)]
        return self.answer_calls(model, tools, history, self.llm(model).chat_with_tools(tools, chat_history=history))

    def tool_loop_stream(self, model, prompt):
        tools, history = [FunctionTool.from_defaults(get_weather)], [ChatMessage(prompt)]
        *_, response = self.llm(model).stream_chat_with_tools(tools, chat_history=history)
        return self.answer_calls(model, tools, history, response)

    def answer_calls(self, model, tools, history, response):
        """Sends the result of the only call back, and returns the text that follows."""
        llm = self.llm(model)
        [call] = llm.get_tool_calls_from_response(response)
        result = str(tools[0](**call.tool_kwargs))
        answer = ChatMessage(role="tool", content=result, additional_kwargs={"tool_call_id": call.tool_id})
        final = llm.chat_with_tools(tools, chat_history=[*history, response.message, answer])
        return {"arguments": call.tool_kwargs, "text": final.message.content}

    def wrong_schema(self, model, prompt):
        return {"text": self.llm(model).chat([ChatMessage(prompt)], response_format=WRONG_SCHEMA).message.content}


run(LlamaIndexDriver)
