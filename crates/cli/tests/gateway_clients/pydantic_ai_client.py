"""Asks with Pydantic AI's chat model: tool output, which is its default, and native output."""

import asyncio

from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from common import API_KEY, WRONG_SCHEMA, Driver, Person, get_weather, run


def called(result):
    """Returns the arguments of the first call and the text that follows its result."""
    messages = result.all_messages()
    [call] = messages[1].tool_calls
    return {"arguments": call.args_as_dict(), "finish": messages[1].finish_reason}


class PydanticAIDriver(Driver):
    def agent(self, model, **options):
        provider = OpenAIProvider(base_url=self.base_url, api_key=API_KEY)
        return Agent(OpenAIChatModel(model, provider=provider), **options)

    def ask(self, agent, prompt):
        result = agent.run_sync(prompt)
        return {"value": result.output.model_dump(), "usage": result.usage.total_tokens}

    def stream(self, agent, prompt):
        async def last_output():
            async with agent.run_stream(prompt) as result:
                async for output in result.stream_output(debounce_by=None):
                    last = output
                return {"value": last.model_dump(), "usage": result.usage.total_tokens}

        return asyncio.run(last_output())

    def schema(self, model, prompt):
        return self.ask(self.agent(model, output_type=NativeOutput(Person)), prompt)

    def schema_stream(self, model, prompt):
        return self.stream(self.agent(model, output_type=NativeOutput(Person)), prompt)

    def tool(self, model, prompt):
        return self.ask(self.agent(model, output_type=Person), prompt)

    def tool_stream(self, model, prompt):
        return self.stream(self.agent(model, output_type=Person), prompt)

    def text(self, model, prompt):
        result = self.agent(model).run_sync(prompt)
        return {"text": result.output, "finish": result.response.finish_reason, "usage": result.usage.total_tokens}

    def text_stream(self, model, prompt):
        return asyncio.run(self.streamed_text(self.agent(model), prompt))

    async def streamed_text(self, agent, prompt):
        async with agent.run_stream(prompt) as result:
            deltas = [delta async for delta in result.stream_text(delta=True, debounce_by=None)]
            finish = result.response.finish_reason
            return {"text": "".join(deltas), "finish": finish, "usage": result.usage.total_tokens}

    def tool_loop(self, model, prompt):
        result = self.agent(model, tools=[get_weather]).run_sync(prompt)
        return called(result) | {"text": result.output}

    def tool_loop_stream(self, model, prompt):
        async def stream():
            async with self.agent(model, tools=[get_weather]).run_stream(prompt) as result:
                deltas = [delta async for delta in result.stream_text(delta=True, debounce_by=None)]
                return called(result) | {"text": "".join(deltas)}

        return asyncio.run(stream())

    def wrong_schema(self, model, prompt):
        settings = {"extra_body": {"response_format": WRONG_SCHEMA}}
        return {"text": self.agent(model).run_sync(prompt, model_settings=settings).output}


run(PydanticAIDriver)
