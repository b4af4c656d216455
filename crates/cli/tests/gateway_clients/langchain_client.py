"""Asks with LangChain's `ChatOpenAI`: `with_structured_output` with its default method and with function calling."""

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from common import API_KEY, WRONG_SCHEMA, Driver, Person, get_weather, last_value, run


def added(chunks):
    """Adds the chunks of a stream up."""
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return whole


def message_of(message):
    seen = {"text": message.content, "finish": message.response_metadata["finish_reason"]}
    refusal = message.additional_kwargs.get("refusal")
    return seen | {"usage": message.usage_metadata["total_tokens"]} | ({"refusal": refusal} if refusal else {})


class LangChainDriver(Driver):
    def chat(self, model):
        return ChatOpenAI(model=model, base_url=self.base_url, api_key=API_KEY, stream_usage=True)

    def structured(self, model, **method):
        return self.chat(model).with_structured_output(Person, **method)

    def schema(self, model, prompt):
        person = self.structured(model).invoke(prompt)
        return {"value": person.model_dump()}

    def schema_stream(self, model, prompt):
        return last_value(self.structured(model).stream(prompt))

    def tool(self, model, prompt):
        # A cut answer has no call, and the result is `None`.
        person = self.structured(model, method="function_calling").invoke(prompt)
        return {"value": person and person.model_dump()}

    def tool_stream(self, model, prompt):
        return last_value(self.structured(model, method="function_calling").stream(prompt))

    def text(self, model, prompt):
        return message_of(self.chat(model).invoke(prompt))

    def text_stream(self, model, prompt):
        return message_of(added(self.chat(model).stream(prompt)))

    def tool_loop(self, model, prompt):
        chat, messages = self.chat(model).bind_tools([tool(get_weather)]), [HumanMessage(prompt)]
        return self.answer_calls(chat, messages, chat.invoke(messages))

    def tool_loop_stream(self, model, prompt):
        chat, messages = self.chat(model).bind_tools([tool(get_weather)]), [HumanMessage(prompt)]
        return self.answer_calls(chat, messages, added(chat.stream(messages)))

    def answer_calls(self, chat, messages, first):
        """Sends the result of the only call back, and returns the text that follows."""
        [call] = first.tool_calls
        answer = chat.invoke([*messages, first, tool(get_weather).invoke(call)])
        finish = first.response_metadata["finish_reason"]
        return {"arguments": call["args"], "finish": finish, "text": answer.content}

    def wrong_schema(self, model, prompt):
        return message_of(self.chat(model).bind(response_format=WRONG_SCHEMA).invoke(prompt))


run(LangChainDriver)
