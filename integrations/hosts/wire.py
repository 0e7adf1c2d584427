"""What a scripted model may answer, and what both vendors' wire formats share."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ToolCall:
    """One tool call of the model."""

    name: str
    arguments: dict


@dataclass(frozen=True)
class Reply:
    """One answer of the scripted model, in no vendor's format."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    # A thinking block with a signature. Only Anthropic's format has one.
    thinking: str = ""
    # Fields that no client knows; they must survive a proxy.
    extra: dict = field(default_factory=dict)
    # An HTTP error in place of an answer.
    status: int = 200
    retry_after: int | None = None
    # The connection is closed after this share of the stream's frames.
    cut_at: float | None = None
    # Pause before each frame of a stream, or before a whole answer.
    pause_s: float = 0.0


@dataclass(frozen=True)
class Frame:
    """One server-sent event."""

    data: str
    event: str | None = None

    def encode(self) -> bytes:
        head = f"event: {self.event}\n" if self.event else ""
        return f"{head}data: {self.data}\n\n".encode()


def compact(value: object) -> str:
    """JSON as the vendors write it on the wire."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def identifier(prefix: str, length: int, *parts: object) -> str:
    """An id in the vendor's form. The same parts give the same id, so that two runs can be compared."""
    digest = hashlib.sha256(compact([str(part) for part in parts]).encode()).hexdigest()
    return prefix + digest[:length]


def pieces(text: str, size: int = 6) -> list[str]:
    """`text` cut into the fragments of a stream."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def token_count(text: str) -> int:
    """A plausible number of tokens."""
    return max(1, len(text) // 4)
