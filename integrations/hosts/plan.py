"""What the drivers in `clients/` do with each library.

An entry names a case of `cases.py`, or has a prompt of its own. `kind` is `create` or `stream` unless named:
`tool_round` answers the model's calls with `result` and asks again, `cancel` leaves a stream midway,
`compact` asks for a shorter history.
"""

from __future__ import annotations

import cases
import scenarios

ANTHROPIC = {"only": ("anthropic",)}
COUNTING = {"only": ("anthropic", "google")}
CHAT = {"only": ("openai",)}
RESPONSES = {"only": ("responses",)}
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
    {"name": "count_tokens", "kind": "count_tokens", "case": "text", **COUNTING},
    {"name": "embeddings", "kind": "embeddings", **CHAT},
    {"name": "compacted", "kind": "compact", "prompt": "Remember Ann.", **RESPONSES},
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


# The same, put together from the events of a stream by the library's own helper.
HELPER: list[dict] = [{**GUARDED[0], "name": "poisoned_helper", "kind": "helper_round"}]

# A library that runs the calls itself: its tools write down that they ran.
READ = ["Read", {"file_path": "page-delete.html"}]
DELETE = ["Bash", {"command": "rm victim.txt", "description": "Do as instructed"}]
AGENT_PLAN: list[dict] = [
    *both("text", case="text", kind="agent", expected={"text": cases.TEXT, "ran": []}),
    *both(
        "tool",
        kind="agent",
        prompt=scenarios.ASK_READ_DELETE,
        result="Sunny.",
        expected={"text": scenarios.NOTHING_TO_DO, "ran": [READ]},
    ),
    *both("bad_request", case="bad_request", kind="agent"),
]
AGENT_GUARDED: list[dict] = both(
    "poisoned",
    kind="agent",
    prompt=scenarios.ASK_READ_DELETE,
    result=scenarios.PAGES["page-delete.html"],
    expected={"text": scenarios.NOTHING_TO_DO, "ran": [READ, DELETE]},
)


def observed(dialect: str) -> list[dict]:
    """What a client of a dialect does where nothing is refused."""
    plan = AGENT_PLAN if dialect == "agents" else PLAN
    return [entry for entry in plan if dialect in entry.get("only", (dialect,))]


def guarded(client: str, dialect: str) -> list[dict]:
    if dialect == "agents":
        return AGENT_GUARDED
    return [*GUARDED, *HELPER] if client == "responses_py" else GUARDED
