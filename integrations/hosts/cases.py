"""The scripted answers that the client libraries are checked with.

A client asks for a case by beginning its prompt with the name in brackets: `[text] Say hello.`
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable

from upstream import Request
from wire import Reply, ToolCall

NAME = re.compile(r"^\[([a-z0-9_]+)\]")

# Non-ASCII text and escapes: what is cut and joined wrongly shows here.
TEXT = "Hello – grüße, 世界 👋🏽.\n\tA \"quoted\" back\\slash, and </p> & <b>.\u2028The end."
DEEP = {"list": [1, None, True, "a\"b\\c"]}
WEATHER = ToolCall("get_weather", {"city": "Zürich", "unit": "°C", "days": 3, "at": 1.5, "deep": DEEP})
TIME = ToolCall("get_time", {"zone": "Europe/Zurich"})


class Flaky:
    """Fails twice for each prompt, in two ways, then answers."""

    def __init__(self) -> None:
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            # The server's address tells one run from another.
            key = f"{request.header('host')} {request.raw!r}"
            self._attempts[key] += 1
            attempt = self._attempts[key]
        if attempt == 1:
            return Reply(text="slow down", status=429, retry_after=1)
        return Reply(text="broken", status=500) if attempt == 2 else Reply(text=TEXT)


CASES: dict[str, Callable[[Request], Reply]] = {
    "text": lambda _: Reply(text=TEXT),
    "one_call": lambda _: Reply(calls=(WEATHER,)),
    "text_and_call": lambda _: Reply(text="I look it up.", calls=(WEATHER,)),
    "two_calls": lambda _: Reply(calls=(WEATHER, TIME)),
    "same_call_twice": lambda _: Reply(calls=(TIME, TIME)),
    "no_arguments": lambda _: Reply(calls=(ToolCall("get_time", {}),)),
    "thinking": lambda _: Reply(text=TEXT, calls=(WEATHER,), thinking="First I think.\nThen I act."),
    "extra": lambda _: Reply(text=TEXT, extra={"x_unknown": {"kept": [1, 2.0, None]}}),
    "rate_limited": lambda _: Reply(text="slow down", status=429, retry_after=7),
    "server_error": lambda _: Reply(text="broken", status=500),
    "overloaded": lambda _: Reply(text="too busy", status=529),
    "bad_request": lambda _: Reply(text="no such model", status=400),
    "flaky": Flaky(),
    "cut": lambda _: Reply(text=TEXT, cut_at=0.5),
    "cut_in_call": lambda _: Reply(calls=(WEATHER,), cut_at=0.6),
    "slow": lambda _: Reply(text="word " * 60, pause_s=0.1),
    "slow_answer": lambda _: Reply(text=TEXT, pause_s=1.0),
}


def find(prompt: str) -> Callable[[Request], Reply] | None:
    """The case that a prompt asks for."""
    match = NAME.match(prompt)
    return CASES.get(match[1]) if match else None
