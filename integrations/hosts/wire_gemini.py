"""Google's generateContent format: whole answers, streams and errors."""

from __future__ import annotations

from wire import Frame, Reply, compact, pieces, token_count

STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


def content(reply: Reply, body: dict) -> dict:
    """The answer in one piece."""
    return chunk(reply, body, parts(reply, [reply.text] if reply.text else []), is_last=True)


def frames(reply: Reply, body: dict) -> list[Frame]:
    """The same answer as a stream: a few words in each event, and each call in one."""
    pieces_of = parts(reply, pieces(reply.text))
    last = len(pieces_of) - 1
    return [Frame(compact(chunk(reply, body, [part], at == last))) for at, part in enumerate(pieces_of)]


def parts(reply: Reply, texts: list[str]) -> list[dict]:
    calls = [{"functionCall": {"name": call.name, "args": call.arguments}} for call in reply.calls]
    return [*({"text": text} for text in texts), *calls]


def chunk(reply: Reply, body: dict, of_model: list[dict], is_last: bool) -> dict:
    candidate = {"content": {"role": "model", "parts": of_model}, "index": 0}
    if is_last:
        candidate["finishReason"] = "STOP"
    prompt, written = token_count(compact(body.get("contents", []))), token_count(reply.text)
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": written, "totalTokenCount": prompt + written}
    return {"candidates": [candidate], "usageMetadata": counts, **reply.extra}


def models() -> dict:
    return {"models": [{"name": "models/gemini-scripted", "version": "1", "displayName": "Scripted"}]}


def error(status: int, text: str) -> dict:
    return {"error": {"code": status, "message": text, "status": STATUSES.get(status, "INTERNAL")}}
