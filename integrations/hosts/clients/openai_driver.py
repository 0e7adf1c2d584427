"""Runs a plan with OpenAI's Python library and prints what the library returned."""

import driver
import openai


class OpenAI(driver.Driver):
    library_error = openai.OpenAIError

    def options(self, entry):
        out = {"model": "gpt-scripted", "messages": driver.prompt(entry)}
        if entry.get("tools"):
            functions = [{**tool, "parameters": driver.SCHEMA} for tool in driver.TOOLS]
            out["tools"] = [{"type": "function", "function": function} for function in functions]
        return out

    def send(self, request, entry):
        return self.client_for(entry).chat.completions.create(**request)

    def open_stream(self, request, entry):
        extra = {"stream": True, "stream_options": {"include_usage": True}}
        return self.client_for(entry).chat.completions.create(**request, **extra)

    def answer_calls(self, request, answer, result):
        message = answer.choices[0].message
        results = [{"role": "tool", "tool_call_id": call.id, "content": result} for call in message.tool_calls]
        request["messages"] += [message.to_dict(), *results]

    def embeddings(self, entry):
        return {"embeddings": driver.plain(self.client_for(entry).embeddings.create(model="m", input="Hello."))}


def make_driver(base_url, headers):
    return OpenAI(openai.OpenAI(api_key="sk-dummy", base_url=base_url, default_headers=headers))


if __name__ == "__main__":
    driver.main(make_driver)
