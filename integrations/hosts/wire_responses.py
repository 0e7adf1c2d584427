"""OpenAI's Responses format: whole answers, streams and errors, and what a request holds."""

from __future__ import annotations

import json

from wire import Frame, Reply, ToolCall, compact, identifier, pieces, token_count
from wire_openai import CREATED, error

__all__ = ["compacted", "error", "frames", "inputs", "response"]


def response(reply: Reply, body: dict) -> dict:
    """The answer in one piece."""
    return {**head(reply, body), "status": "completed", "output": items(reply, body), "usage": usage(reply, body)}


def frames(reply: Reply, body: dict) -> list[Frame]:
    """The same answer as the events of a stream."""
    begun = {**head(reply, body), "status": "in_progress", "output": []}
    out = [event("response.created", response=begun)]
    for index, item in enumerate(items(reply, body)):
        out += item_frames(index, item)
    out.append(event("response.completed", response=response(reply, body)))
    return numbered(out)


def compacted(body: dict) -> dict:
    """A shorter history: what the user said, and what the model remembers of the rest."""
    said = [item for item in inputs(body) if item.get("role") == "user"]
    said = [{**item, "type": "message", "id": identifier("msg_", 24, place), "status": "completed",
             "content": [{"type": "input_text", "text": item["content"]}]} for place, item in enumerate(said)]
    remembered = {"type": "compaction", "id": identifier("cmp_", 24, said), "encrypted_content": "scripted"}
    used = usage(Reply(), body)
    return {"id": identifier("resp_", 24, said), "object": "response.compaction", "created_at": CREATED,
            "output": [*said, remembered], "usage": used}


def numbered(events: list[Frame]) -> list[Frame]:
    values = [{**json.loads(each.data), "sequence_number": number} for number, each in enumerate(events)]
    return [Frame(compact(value), value["type"]) for value in values]


def inputs(body: dict) -> list[dict]:
    """The items of a request, oldest first."""
    items = body.get("input")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def items(reply: Reply, body: dict) -> list[dict]:
    out: list[dict] = []
    if reply.text:
        text = {"type": "output_text", "text": reply.text, "annotations": []}
        out.append({
            "type": "message", "id": identifier("msg_", 24, reply, len(inputs(body))), "status": "completed",
            "role": "assistant", "content": [text],
        })
    return out + [call_item(call, position, body) for position, call in enumerate(reply.calls)]


def call_item(call: ToolCall, position: int, body: dict) -> dict:
    identity = identifier("call_", 24, call, position, len(inputs(body)))
    return {
        "type": "function_call", "id": f"fc_{identity[5:]}", "call_id": identity, "status": "completed",
        "name": call.name, "arguments": compact(call.arguments),
    }


def item_frames(index: int, item: dict) -> list[Frame]:
    place = {"output_index": index, "item_id": item["id"]}
    if item["type"] == "message":
        opening = {**item, "status": "in_progress", "content": []}
        part = item["content"][0]
        text, place = part["text"], {**place, "content_index": 0}
        deltas = [
            event("response.content_part.added", **place, part={**part, "text": ""}),
            *(event("response.output_text.delta", **place, delta=each, logprobs=[]) for each in pieces(text)),
            event("response.output_text.done", **place, text=text, logprobs=[]),
            event("response.content_part.done", **place, part=part),
        ]
    else:
        opening = {**item, "status": "in_progress", "arguments": ""}
        arguments = item["arguments"]
        deltas = [
            *(event("response.function_call_arguments.delta", **place, delta=each) for each in pieces(arguments)),
            event("response.function_call_arguments.done", **place, arguments=arguments),
        ]
    added = event("response.output_item.added", output_index=index, item=opening)
    return [added, *deltas, event("response.output_item.done", output_index=index, item=item)]


def head(reply: Reply, body: dict) -> dict:
    identity = identifier("resp_", 24, reply, len(inputs(body)))
    return {"id": identity, "object": "response", "created_at": CREATED, "model": body.get("model"), **reply.extra}


def usage(reply: Reply, body: dict) -> dict:
    prompt, written = token_count(compact(inputs(body))), token_count(reply.text)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + written,
    }


def event(kind: str, **fields: object) -> Frame:
    return Frame(compact({"type": kind, **fields}), kind)
