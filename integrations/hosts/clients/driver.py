"""What both Python drivers share: the plan, errors and cancelling.

    VENDOR_driver.py PLAN BASE_URL HEADERS

prints one JSON object: the name of each entry of the plan, and what the library made of it.
"""

import json
import sys
import time
from pathlib import Path

SCHEMA = {"type": "object", "properties": {}, "additionalProperties": True}
TOOLS = [
    {"name": "get_weather", "description": "The weather of a city."},
    {"name": "get_time", "description": "The time in a zone."},
    {"name": "Bash", "description": "Run a command."},
    {"name": "Read", "description": "Read a file."},
]
# Events that are read before a stream is cancelled.
EVENTS_BEFORE_CANCEL = 6


class Driver:
    """One library. A subclass says how it is called."""

    library_error = Exception

    def __init__(self, client):
        self.client = client

    def options(self, entry):
        raise NotImplementedError

    def send(self, request, entry):
        """One answer in one piece."""
        raise NotImplementedError

    def open_stream(self, request, entry):
        raise NotImplementedError

    def answer_calls(self, request, answer, result):
        """Adds the model's turn and the results of its calls to the request."""
        raise NotImplementedError

    def create(self, entry):
        return self.ask(self.options(entry), entry)

    def ask(self, request, entry):
        if entry.get("stream"):
            return self.read(self.open_stream(request, entry))
        answer = self.send(request, entry)
        return {"answer": plain(answer), "request_id": answer._request_id}

    def read(self, stream):
        """All events, and the error if there was one: what arrived before it counts."""
        events = []
        try:
            for event in stream:
                events.append(plain(event))
        except Exception as error:
            return {"events": events, "error": self.describe(error)}
        return {"events": events}

    def tool_round(self, entry):
        request = self.options(entry)
        self.answer_calls(request, self.send(request, entry), entry["result"])
        return self.ask(request, entry)

    def cancel(self, entry):
        """Leaves a stream midway, then uses the same client again."""
        started = time.monotonic()
        read = 0
        with self.open_stream(self.options(entry), entry) as stream:
            for _ in stream:
                read += 1
                if read == EVENTS_BEFORE_CANCEL:
                    break
        return {"read": read, "elapsed_s": time.monotonic() - started, **self.create({"case": "text"})}

    def models(self, entry):
        return {"models": [plain(model) for model in self.client_for(entry).models.list()]}

    def client_for(self, entry):
        return self.client.with_options(max_retries=entry.get("retries", 0))

    def run(self, entry):
        try:
            return getattr(self, entry.get("kind", "create"))(entry)
        except Exception as error:  # what escapes is part of the result
            return {"error": self.describe(error)}

    def describe(self, error):
        response = getattr(error, "response", None)
        return {
            "class": type(error).__name__,
            "is_library_error": isinstance(error, self.library_error),
            "status": getattr(error, "status_code", None),
            "body": getattr(error, "body", None),
            "request_id": getattr(error, "request_id", None),
            "retry_after": response.headers.get("retry-after") if response is not None else None,
        }


def plain(value):
    return value.to_dict(mode="json")


def prompt(entry):
    text = entry.get("prompt") or f"[{entry['case']}] Please answer."
    return [{"role": "user", "content": text}]


def main(make_driver):
    plan, base_url, headers = json.loads(Path(sys.argv[1]).read_text()), sys.argv[2], json.loads(sys.argv[3])
    driver = make_driver(base_url, headers)
    print(json.dumps({entry["name"]: driver.run(entry) for entry in plan}))
