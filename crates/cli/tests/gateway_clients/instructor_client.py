"""Asks with Instructor: in its default mode, which forces a tool, and with `Mode.JSON_SCHEMA`."""

import instructor
import openai

from common import API_KEY, WRONG_SCHEMA, Driver, Person, last_value, run


class InstructorDriver(Driver):
    def __init__(self, base_url):
        super().__init__(base_url)
        self.client = openai.OpenAI(base_url=base_url, api_key=API_KEY)

    def create(self, model, prompt, **mode):
        client = instructor.from_openai(self.client, **mode)
        messages = [{"role": "user", "content": prompt}]
        person, completion = client.create_with_completion(model=model, messages=messages, response_model=Person)
        choice = completion.choices[0]
        return {"value": person.model_dump(), "finish": choice.finish_reason, "usage": completion.usage.total_tokens}

    def create_partial(self, model, prompt, **mode):
        client = instructor.from_openai(self.client, **mode)
        messages = [{"role": "user", "content": prompt}]
        return last_value(client.create_partial(model=model, messages=messages, response_model=Person))

    def schema(self, model, prompt):
        return self.create(model, prompt, mode=instructor.Mode.JSON_SCHEMA)

    def schema_stream(self, model, prompt):
        return self.create_partial(model, prompt, mode=instructor.Mode.JSON_SCHEMA)

    def tool(self, model, prompt):
        return self.create(model, prompt)

    def tool_stream(self, model, prompt):
        return self.create_partial(model, prompt)

    def wrong_schema(self, model, prompt):
        client = instructor.from_openai(self.client)
        messages = [{"role": "user", "content": prompt}]
        return {"text": client.create(model=model, messages=messages, response_model=None, response_format=WRONG_SCHEMA)}


run(InstructorDriver)
