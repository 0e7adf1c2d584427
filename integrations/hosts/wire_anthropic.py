"""Anthropic's Messages format: whole answers, streams and errors."""

from __future__ import annotations

from wire import Frame, Reply, ToolCall, compact, identifier, pieces, token_count

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def message(reply: Reply, body: dict) -> dict:
    """The answer in one piece."""
    content = blocks(reply, body)
    return {
        "model": body.get("model"),
        "id": message_id(reply, body),
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": usage(body, sum(token_count(compact(block)) for block in content)),
        **reply.extra,
    }


def frames(reply: Reply, body: dict) -> list[Frame]:
    """The same answer as the events of a stream."""
    whole = message(reply, body)
    start = {**whole, "content": [], "stop_reason": None, "usage": usage(body, 1)}
    out = [event({"type": "message_start", "message": start})]
    for index, block in enumerate(whole["content"]):
        out += block_frames(index, block)
        if index == 0:
            # The service sends the first ping after the first block has begun.
            out.insert(2, event({"type": "ping"}))
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    written = {"output_tokens": whole["usage"]["output_tokens"]}
    out.append(event({"type": "message_delta", "delta": delta, "usage": written}))
    out.append(event({"type": "message_stop"}))
    return out


def error(status: int, text: str) -> dict:
    kind = ERROR_TYPES.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_scripted"}


def models() -> dict:
    entry = {"type": "model", "id": "claude-scripted", "display_name": "Scripted", "created_at": "2026-01-01T00:00:00Z"}
    return {"data": [entry], "has_more": False, "first_id": entry["id"], "last_id": entry["id"]}


def blocks(reply: Reply, body: dict) -> list[dict]:
    out: list[dict] = []
    if reply.thinking:
        out.append({"type": "thinking", "thinking": reply.thinking, "signature": identifier("Eq", 40, reply.thinking)})
    if reply.text:
        out.append({"type": "text", "text": reply.text})
    for position, call in enumerate(reply.calls):
        identity = call_id(call, position, body)
        out.append({"type": "tool_use", "id": identity, "name": call.name, "input": call.arguments})
    return out


def block_frames(index: int, block: dict) -> list[Frame]:
    opening, deltas = block_parts(block)
    out = [event({"type": "content_block_start", "index": index, "content_block": opening})]
    out += [event({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas]
    out.append(event({"type": "content_block_stop", "index": index}))
    return out


def block_parts(block: dict) -> tuple[dict, list[dict]]:
    """The block as it is announced, and what is added to it."""
    if block["type"] == "text":
        deltas = [{"type": "text_delta", "text": part} for part in pieces(block["text"])]
        return {"type": "text", "text": ""}, deltas
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    # The service begins with an empty fragment.
    parts = ["", *pieces(compact(block["input"]))]
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]


def usage(body: dict, output_tokens: int) -> dict:
    return {
        "input_tokens": token_count(compact(body.get("messages", []))),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output_tokens,
        "service_tier": "standard",
    }


def message_id(reply: Reply, body: dict) -> str:
    return identifier("msg_01", 22, reply, len(body.get("messages", [])))


def call_id(call: ToolCall, position: int, body: dict) -> str:
    return identifier("toolu_01", 22, call, position, len(body.get("messages", [])))


def event(data: dict) -> Frame:
    return Frame(compact(data), data["type"])
