"""OpenAI's Chat Completions format: whole answers, streams and errors."""

from __future__ import annotations

from wire import Frame, Reply, ToolCall, compact, identifier, pieces, token_count

# A fixed time of creation, so that two runs can be compared.
CREATED = 1_767_225_600


def completion(reply: Reply, body: dict) -> dict:
    """The answer in one piece."""
    answer = {"role": "assistant", "content": reply.text or None, "refusal": None, "annotations": []}
    if reply.calls:
        answer["tool_calls"] = [whole_call(call, position, body) for position, call in enumerate(reply.calls)]
    choice = {"index": 0, "message": answer, "logprobs": None, "finish_reason": finish_reason(reply)}
    head = {**head_fields(reply, body), "object": "chat.completion"}
    return {**head, "choices": [choice], "usage": usage(reply, body), **reply.extra}


def frames(reply: Reply, body: dict) -> list[Frame]:
    """The same answer as the chunks of a stream."""
    wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    first = {"role": "assistant", "content": "" if reply.text else None, "refusal": None}
    deltas = [first, *({"content": part} for part in pieces(reply.text))]
    for position, call in enumerate(reply.calls):
        deltas += call_deltas(call, position, body)
    chunks = [chunk(reply, body, delta, None, wants_usage) for delta in deltas]
    chunks.append(chunk(reply, body, {}, finish_reason(reply), wants_usage))
    if wants_usage:
        # The figures come in one more chunk, which has no choices.
        chunks.append({**chunk(reply, body, {}, None, True), "choices": [], "usage": usage(reply, body)})
    return [*(Frame(compact(each)) for each in chunks), Frame("[DONE]")]


def error(status: int, text: str) -> dict:
    kind, code = {
        429: ("requests", "rate_limit_exceeded"),
        401: ("invalid_request_error", "invalid_api_key"),
        400: ("invalid_request_error", None),
    }.get(status, ("server_error", None))
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def models() -> dict:
    entry = {"id": "gpt-scripted", "object": "model", "created": CREATED, "owned_by": "system"}
    return {"object": "list", "data": [entry]}


def embedding(body: dict) -> dict:
    entry = {"object": "embedding", "index": 0, "embedding": [0.25, -0.5, 1.0]}
    counts = {"prompt_tokens": 2, "total_tokens": 2}
    return {"object": "list", "data": [entry], "model": body.get("model"), "usage": counts}


def head_fields(reply: Reply, body: dict) -> dict:
    return {
        "id": identifier("chatcmpl-", 29, reply, len(body.get("messages", []))),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": body.get("model"),
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def chunk(reply: Reply, body: dict, delta: dict, finish: str | None, wants_usage: bool) -> dict:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    out = {**head_fields(reply, body), "choices": [choice], **reply.extra}
    if wants_usage:
        out["usage"] = None
    return out


def whole_call(call: ToolCall, position: int, body: dict) -> dict:
    identity = identifier("call_", 24, call, position, len(body.get("messages", [])))
    return {"id": identity, "type": "function", "function": {"name": call.name, "arguments": compact(call.arguments)}}


def call_deltas(call: ToolCall, position: int, body: dict) -> list[dict]:
    """Id and name come once, the arguments in fragments."""
    whole = whole_call(call, position, body)
    opening = {**whole, "index": position, "function": {"name": call.name, "arguments": ""}}
    rest = [{"index": position, "function": {"arguments": part}} for part in pieces(whole["function"]["arguments"])]
    return [{"tool_calls": [each]} for each in [opening, *rest]]


def finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def usage(reply: Reply, body: dict) -> dict:
    prompt = token_count(compact(body.get("messages", [])))
    written = token_count(reply.text + "".join(compact(call.arguments) for call in reply.calls))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
