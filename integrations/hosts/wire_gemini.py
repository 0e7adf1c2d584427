"""Google's generateContent format: whole answers, streams and errors."""

from __future__ import annotations

from wire import Frame, Reply, compact, token_count

STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


def content(reply: Reply, body: dict) -> dict:
    """The answer in one piece."""
    parts = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": {"name": call.name, "args": call.arguments}} for call in reply.calls]
    prompt, written = token_count(compact(body.get("contents", []))), token_count(reply.text)
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": written, "totalTokenCount": prompt + written}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts, **reply.extra}


def frames(reply: Reply, body: dict) -> list[Frame]:
    """The same answer as a stream: one event, as the service sends short answers."""
    return [Frame(compact(content(reply, body)))]


def error(status: int, text: str) -> dict:
    return {"error": {"code": status, "message": text, "status": STATUSES.get(status, "INTERNAL")}}
