"""OpenAI's Responses format: whole answers, streams and errors, and what a request holds."""

from __future__ import annotations

from wire import Frame, Reply, ToolCall, compact, identifier, pieces, token_count
from wire_openai import CREATED, error

__all__ = ["error", "frames", "inputs", "response"]


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
    return out


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
        text = item["content"][0]["text"]
        deltas = [
            event("response.output_text.delta", **place, content_index=0, delta=part) for part in pieces(text)
        ]
    else:
        opening = {**item, "status": "in_progress", "arguments": ""}
        deltas = [event("response.function_call_arguments.delta", **place, delta=part) for part in pieces(item["arguments"])]
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
