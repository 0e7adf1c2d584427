"""Runs a plan with the Responses API of OpenAI's Python library and prints what the library returned."""

import driver
import openai


class Responses(driver.Driver):
    library_error = openai.OpenAIError

    def options(self, entry):
        out = {"model": "gpt-scripted", "input": driver.prompt(entry)}
        if entry.get("tools"):
            out["tools"] = [{"type": "function", **tool, "parameters": driver.SCHEMA} for tool in driver.TOOLS]
        return out

    def send(self, request, entry):
        return self.client_for(entry).responses.create(**request)

    def open_stream(self, request, entry):
        return self.client_for(entry).responses.create(**request, stream=True)

    def helper_round(self, entry):
        """A round with tools whose second answer the library's own helper puts together from its events."""
        request = self.options(entry)
        self.answer_calls(request, self.send(request, entry), entry["result"])
        with self.client_for(entry).responses.stream(**request) as stream:
            for _ in stream:
                pass
            return {"answer": driver.plain(stream.get_final_response())}

    def compact(self, entry):
        return {"history": driver.plain(self.client_for(entry).responses.compact(**self.options(entry)))}

    def answer_calls(self, request, answer, result):
        items = answer.to_dict(mode="json")["output"]
        calls = [item for item in items if item["type"] == "function_call"]
        outputs = [{"type": "function_call_output", "call_id": call["call_id"], "output": result} for call in calls]
        request["input"] += [*items, *outputs]


def make_driver(base_url, headers):
    return Responses(openai.OpenAI(api_key="sk-dummy", base_url=base_url, default_headers=headers))


if __name__ == "__main__":
    driver.main(make_driver)
