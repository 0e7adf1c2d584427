"""Runs a plan with Google's Python library and prints what the library returned."""

import time

import driver
from google import genai
from google.genai import errors, types

MODEL = "gemini-scripted"


class Google(driver.Driver):
    library_error = errors.APIError

    def __init__(self, base_url, headers):
        super().__init__(None)
        self.base_url, self.headers = base_url, headers
        # A client closes what it opened as soon as nobody has it.
        self.clients = []

    def options(self, entry):
        contents = [{"role": "user", "parts": [{"text": message["content"]}]} for message in driver.prompt(entry)]
        config = {}
        if entry.get("tools"):
            functions = [{**tool, "parameters_json_schema": driver.SCHEMA} for tool in driver.TOOLS]
            config["tools"] = [types.Tool(function_declarations=functions)]
        return {"model": MODEL, "contents": contents, "config": config}

    def ask(self, request, entry):
        if entry.get("stream"):
            return self.read(self.open_stream(request, entry))
        return {"answer": plain(self.send(request, entry))}

    def read(self, stream):
        events = []
        try:
            events.extend(plain(event) for event in stream)
        except Exception as error:
            return {"events": events, "error": self.describe(error)}
        return {"events": events}

    def send(self, request, entry):
        return self.client_for(entry).models.generate_content(**request)

    def open_stream(self, request, entry):
        return self.client_for(entry).models.generate_content_stream(**request)

    def answer_calls(self, request, answer, result):
        turn = answer.candidates[0].content
        calls = [part.function_call for part in turn.parts if part.function_call]
        results = [types.Part.from_function_response(name=call.name, response={"output": result}) for call in calls]
        request["contents"] += [turn, types.Content(role="user", parts=results)]

    def cancel(self, entry):
        started = time.monotonic()
        # The library has no other way to leave a stream than to close the client.
        client = self.client_for(entry)
        stream = client.models.generate_content_stream(**self.options(entry))
        read = sum(1 for _ in zip(range(driver.EVENTS_BEFORE_CANCEL), stream))
        elapsed_s = time.monotonic() - started
        stream.close()
        client.close()
        return {"read": read, "elapsed_s": elapsed_s, **self.create({"case": "text"})}

    def models(self, entry):
        return {"models": [plain(model) for model in self.client_for(entry).models.list()]}

    def count_tokens(self, entry):
        options = self.options(entry)
        answer = self.client_for(entry).models.count_tokens(model=MODEL, contents=options["contents"])
        return {"count": answer.total_tokens}

    def client_for(self, entry):
        retries = types.HttpRetryOptions(attempts=1 + entry.get("retries", 0), initial_delay=0.1, jitter=0)
        options = types.HttpOptions(base_url=self.base_url, headers=self.headers, retry_options=retries)
        self.clients.append(genai.Client(api_key="dummy", http_options=options))
        return self.clients[-1]

    def describe(self, error):
        response = getattr(error, "response", None)
        headers = getattr(response, "headers", None) or {}
        return {
            "class": type(error).__name__,
            "is_library_error": isinstance(error, self.library_error),
            "status": getattr(error, "code", None),
            "body": getattr(error, "details", None),
            "request_id": headers.get("x-request-id"),
            "retry_after": headers.get("retry-after"),
        }


def plain(value):
    # The headers, of which some are made anew on each way.
    return value.model_dump(mode="json", exclude_none=True, exclude={"sdk_http_response"})


if __name__ == "__main__":
    driver.main(Google)
