"""What the drivers in `clients/` do with each library.

An entry names a case of `cases.py`, or has a prompt of its own. `kind` is `create` or `stream` unless named:
`tool_round` answers the model's calls with `result` and asks again, `cancel` leaves a stream midway.
"""

from __future__ import annotations

import scenarios

ANTHROPIC = {"only": "anthropic"}
TOOLS = {"tools": True}
STREAM = {"stream": True}


def both(name: str, **entry: object) -> list[dict]:
    """The entry without and with streaming."""
    return [{"name": name, **entry}, {"name": f"{name}_stream", **entry, **STREAM}]


# Nothing of this is refused, so Custody must not change a byte.
PLAN: list[dict] = [
    *both("text", case="text"),
    *both("one_call", case="one_call", **TOOLS),
    *both("text_and_call", case="text_and_call", **TOOLS),
    *both("two_calls", case="two_calls", **TOOLS),
    *both("same_call_twice", case="same_call_twice", **TOOLS),
    *both("no_arguments", case="no_arguments", **TOOLS),
    *both("tool_round", case="one_call", kind="tool_round", result="Sunny.", **TOOLS),
    *both("thinking", case="thinking", **TOOLS, **ANTHROPIC),
    *both("unknown_field", case="extra"),
    {"name": "slow_answer", "case": "slow_answer"},
    {"name": "models", "kind": "models"},
    {"name": "count_tokens", "kind": "count_tokens", "case": "text", **ANTHROPIC},
    *both("rate_limited", case="rate_limited"),
    *both("server_error", case="server_error"),
    *both("overloaded", case="overloaded", **ANTHROPIC),
    *both("bad_request", case="bad_request"),
    *both("retried", case="flaky", retries=2),
    {"name": "cut", "case": "cut", **STREAM},
    {"name": "cut_in_call", "case": "cut_in_call", **TOOLS, **STREAM},
    {"name": "cancelled", "case": "slow", "kind": "cancel"},
]

# The model read a page that demands a call. Without Custody the library returns that call.
GUARDED: list[dict] = both(
    "poisoned",
    kind="tool_round",
    prompt=scenarios.ASK_READ_DELETE,
    result=scenarios.PAGES["page-delete.html"],
    **TOOLS,
)


def for_vendor(plan: list[dict], vendor: str) -> list[dict]:
    return [entry for entry in plan if entry.get("only", vendor) == vendor]
