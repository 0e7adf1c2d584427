"""What a library's result says, whether it came in one piece or as the events of a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass

import cases
import scenarios


@dataclass(frozen=True)
class Answer:
    text: str = ""
    # Name and arguments of each call, in order.
    calls: tuple = ()
    thinking: str = ""
    finish: str | None = None


def expected(entry: dict) -> Answer:
    """What the script answers to an entry of the plan."""
    if entry.get("kind") in ("tool_round", "helper_round"):
        reply = scenarios.after_reading(entry["result"])
    elif entry["case"] == "flaky":
        reply = cases.CASES["text"](None)
    else:
        reply = cases.CASES[entry["case"]](None)
    calls = tuple((call.name, canonical(call.arguments)) for call in reply.calls)
    return Answer(reply.text, calls, reply.thinking, "calls" if calls else "end")


def read(result: dict, dialect: str, is_whole: bool = True) -> Answer:
    """With `is_whole`, every call must be complete; without, incomplete calls are left out."""
    is_answer = "answer" in result
    message = result["answer"] if is_answer else result["events"]
    match dialect:
        case "openai":
            return from_completion(message) if is_answer else from_chunks(message, is_whole)
        case "responses":
            return from_response(message) if is_answer else from_response(assemble_response(message))
        case "google":
            return from_candidates([message] if is_answer else message)
    return from_message(message if is_answer else assemble(message, is_whole))


def from_response(response: dict) -> Answer:
    items = response["output"]
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    calls = tuple(openai_call(item) for item in items if item["type"] == "function_call")
    ended = response.get("status") == "completed"
    return Answer("".join(texts), calls, finish=("calls" if calls else "end") if ended else None)


def assemble_response(events: list[dict]) -> dict:
    """The answer of a stream: from its items, which the last event has to repeat."""
    items, texts, status = {}, {}, None
    for event in events:
        at = event.get("output_index")
        if event["type"] == "response.output_text.delta":
            texts[at] = texts.get(at, "") + event["delta"]
        elif event["type"] == "response.output_item.done":
            items[at] = event["item"]
        elif event["type"] == "response.completed":
            status = "completed"
            repeated = event["response"]["output"]
            if repeated != [item for _, item in sorted(items.items())]:
                raise ValueError(f"the last event does not repeat the items: {repeated}")
    for at, text in texts.items():
        items.setdefault(at, {"type": "message", "content": [{"text": text}]})
    return {"output": [item for _, item in sorted(items.items())], "status": status}


def from_candidates(chunks: list[dict]) -> Answer:
    """The names are the library's own, or those of the wire."""
    candidates = [candidate for chunk in chunks for candidate in chunk.get("candidates") or []]
    parts = [part for each in candidates for part in (each.get("content") or {}).get("parts") or []]
    calls = [call for part in parts if (call := part.get("function_call") or part.get("functionCall"))]
    ended = any((each.get("finish_reason") or each.get("finishReason")) == "STOP" for each in candidates)
    return Answer(
        "".join(part.get("text") or "" for part in parts),
        tuple((call["name"], canonical(call.get("args") or {})) for call in calls),
        finish=("calls" if calls else "end") if ended else None,
    )


def from_completion(completion: dict) -> Answer:
    choice = completion["choices"][0]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    return Answer(message["content"] or "", tuple(map(openai_call, calls)), finish=finish(choice["finish_reason"]))


def from_chunks(chunks: list[dict], is_whole: bool) -> Answer:
    text, calls, reason = "", {}, None
    for choice in (chunk["choices"][0] for chunk in chunks if chunk["choices"]):
        delta = choice["delta"]
        text += delta.get("content") or ""
        reason = choice.get("finish_reason") or reason
        for part in delta.get("tool_calls") or []:
            call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
            for key, value in part.get("function", {}).items():
                call[key] += value or ""
    functions = [call for _, call in sorted(calls.items()) if is_whole or is_json(call["arguments"])]
    return Answer(text, tuple(map(openai_call, functions)), finish=finish(reason))


def openai_call(function: dict) -> tuple[str, str]:
    return function["name"], canonical(json.loads(function["arguments"]))


def from_message(message: dict) -> Answer:
    blocks = message["content"]
    return Answer(
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        tuple((block["name"], canonical(block["input"])) for block in blocks if block["type"] == "tool_use"),
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        finish(message.get("stop_reason")),
    )


def assemble(events: list[dict], is_whole: bool) -> dict:
    """The message of Anthropic's stream."""
    blocks, reason = {}, None
    for event in events:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], "json": "", "stopped": False}
        elif event["type"] == "content_block_delta":
            extend(blocks[event["index"]], event["delta"])
        elif event["type"] == "content_block_stop":
            blocks[event["index"]]["stopped"] = True
        elif event["type"] == "message_delta":
            reason = event["delta"]["stop_reason"]
    content = [block for _, block in sorted(blocks.items())]
    calls = [block for block in content if block["type"] == "tool_use" and (is_whole or block["stopped"])]
    for call in calls:
        call["input"] = json.loads(call["json"] or "{}")
    kept = [block for block in content if block["type"] != "tool_use" or block in calls]
    return {"content": kept, "stop_reason": reason}


def extend(block: dict, delta: dict) -> None:
    if delta["type"] == "input_json_delta":
        block["json"] += delta["partial_json"]
    elif delta["type"] in ("text_delta", "thinking_delta"):
        key = delta["type"].removesuffix("_delta")
        block[key] += delta[key]


def finish(reason: str | None) -> str | None:
    return {"stop": "end", "end_turn": "end", "tool_calls": "calls", "tool_use": "calls"}.get(reason, reason)


def canonical(arguments: dict) -> str:
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def summary(result: dict) -> str:
    """A few words for the line of a check that passed."""
    error = result.get("error")
    if error:
        return f"{error['class']} {error['status'] or ''}".strip()
    return f"{len(result['events'])} events" if "events" in result else ""
