"""Runs a plan with Anthropic's Python library and prints what the library returned."""

import anthropic
import driver


class Anthropic(driver.Driver):
    library_error = anthropic.AnthropicError

    def options(self, entry):
        return {**self.counted_options(entry), "max_tokens": 1000}

    def counted_options(self, entry):
        out = {"model": "claude-scripted", "messages": driver.prompt(entry)}
        if entry.get("tools"):
            out["tools"] = [{**tool, "input_schema": driver.SCHEMA} for tool in driver.TOOLS]
        return out

    def send(self, request, entry):
        return self.client_for(entry).messages.create(**request)

    def open_stream(self, request, entry):
        return self.client_for(entry).messages.create(**request, stream=True)

    def answer_calls(self, request, answer, result):
        calls = [block for block in answer.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": result} for call in calls]
        turn = {"role": "assistant", "content": answer.to_dict()["content"]}
        request["messages"] += [turn, {"role": "user", "content": results}]

    def count_tokens(self, entry):
        answer = self.client_for(entry).messages.count_tokens(**self.counted_options(entry))
        return {"count": driver.plain(answer)}


def make_driver(base_url, headers):
    return Anthropic(anthropic.Anthropic(api_key="sk-dummy", base_url=base_url, default_headers=headers))


if __name__ == "__main__":
    driver.main(make_driver)
