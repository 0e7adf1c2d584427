"""The client of Custody's session protocol: JSON Lines, one request, one answer.

A gate decides calls; it never runs them. Whoever runs one must run the call that an `allow` carries
and no other: its arguments are the canonical ones that were decided.

Everything doubtful is an exception: an answer that is missing, late in the stream, or not what the
protocol says never turns into permission.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TextIO

Kind = Literal["message", "completion", "tool_output", "retrieval", "file_change"]
Channel = Literal["system", "user", "web", "tool", "skill", "retrieval", "model", "file", "peer-agent"]
Id = str | int

VERDICTS = ("allow", "ask", "deny")


class GateError(Exception):
    """The gate answered that it could not do what was asked, or could not be asked it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class ProtocolError(Exception):
    """The gate is gone, or speaks another protocol. Nothing it said since can be believed."""


@dataclass(frozen=True)
class Call:
    """A tool and its arguments: as proposed, or as the gate made them canonical."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Reasons:
    """One decision in its three voices."""

    model: str = ""
    user: str = ""
    audit: Sequence[Any] = ()


@dataclass(frozen=True)
class Decision:
    """What the gate says of a proposal. `call` is there exactly if `verdict` is `allow`."""

    verdict: Literal["allow", "ask", "deny"]
    proposal: Id
    call: Call | None = None
    reasons: Reasons = field(default_factory=Reasons)


class Link(Protocol):
    """Carries objects to the gate and back, in order."""

    def send(self, message: Mapping[str, Any]) -> None: ...

    def receive(self) -> Any: ...


class Lines:
    """A link over two text streams, one JSON object per line."""

    def __init__(self, reader: TextIO, writer: TextIO) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: Mapping[str, Any]) -> None:
        try:
            # ASCII only, so no line separator of Unicode can end a line early.
            line = json.dumps(message, allow_nan=False)
        except (TypeError, ValueError) as cause:
            raise GateError("not_json", "the request holds what JSON cannot say") from cause
        self._writer.write(line + "\n")
        self._writer.flush()

    def receive(self) -> Any:
        line = self._reader.readline()
        if not line.endswith("\n"):
            raise ProtocolError("the gate closed its end of the stream")
        try:
            return json.loads(line)
        except ValueError as cause:
            raise ProtocolError("the gate sent a line that is not JSON") from cause


class Gate:
    """Custody's session protocol, one method for each operation."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._requests = 0

    def open(
        self, alias: str | None = None, suite: str | None = None, wanted: Sequence[str] | None = None
    ) -> Id:
        """Opens a session.

        `suite` and `wanted`, the tools that the user's task needs, are for the measured harness: it
        chooses the suite's manifest, and gives its perfect tool filter what no product knows.
        """
        optional = {"alias": alias, "suite": suite, "wanted": wanted and list(wanted)}
        answer = self._ask("open", **{name: value for name, value in optional.items() if value is not None})
        return _take(answer, "session", (str, int))

    def tools(self, session: Id, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Announces the tools; the answer says what the gate holds each of them for."""
        return _take(self._ask("tools", session=session, tools=list(tools)), "tools", (list,))

    def observe(
        self, session: Id, kind: Kind, channel: Channel, text: str, origin: str | None = None
    ) -> list[dict[str, Any]]:
        """Records a text that enters the context, under the channel it came by."""
        fields = {"kind": kind, "channel": channel, "text": text}
        if origin is not None:
            fields["origin"] = origin
        return _take(self._ask("observe", session=session, **fields), "entries", (list,))

    def intend(self, session: Id, intents: Sequence[Mapping[str, Any]]) -> None:
        """Declares the calls that the session means to make, while nothing untrusted was read."""
        answer = self._ask("intend", session=session, intents=list(intents))
        if answer.get("decision") != "allow":
            raise GateError("not_declared", _reasons(answer.get("reasons")).user)

    def propose(self, session: Id, call: Call) -> Decision:
        """Asks whether `call` may run."""
        wire = {"tool": call.tool, "arguments": dict(call.arguments)}
        return _decision(self._ask("propose", session=session, call=wire))

    def decide(self, session: Id, proposal: Id) -> Decision:
        """Asks what has become of a proposal; an approved one is allowed here exactly once."""
        return _decision(self._ask("decide", session=session, proposal=proposal))

    def approve(self, session: Id, proposal: Id) -> None:
        """Approves a proposal. Only the measured harness answers this: a token is no human."""
        answer = self._ask("approve", session=session, proposal=proposal)
        if answer.get("approved") is not True:
            raise ProtocolError("the gate neither approved nor refused to approve")

    def result(
        self, session: Id, proposal: Id, text: str, error: bool, structured: Any = None
    ) -> str:
        """Records what an allowed call returned, or the error it ended in; returns what the model reads.

        `structured` is the output as JSON: fields that a manifest trusts are looked for there.

        Custody records and lets the model read. Other defences in the measured harness answer with a
        `text` of their own, which then stands in the place of what came back.
        """
        fields = {"text": text, "error": error}
        if structured is not None:
            fields["structured"] = structured
        answer = self._ask("result", session=session, proposal=proposal, **fields)
        _take(answer, "entries", (list,))
        return _take(answer, "text", (str,)) if "text" in answer else text

    def close(self, session: Id) -> None:
        self._ask("close", session=session)

    def tell(self, op: str, **fields: Any) -> None:
        """Sends a line that wants no answer."""
        self._link.send({"op": op, **fields})

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        self._requests += 1
        self._link.send({"id": self._requests, "op": op, **fields})
        answer = self._link.receive()
        if not isinstance(answer, dict) or answer.get("id") != self._requests:
            raise ProtocolError(f"the gate answered something else than request {self._requests}, `{op}`")
        if "error" in answer:
            raise _error(answer["error"])
        return answer


@contextmanager
def spawn(command: Sequence[str]) -> Iterator[Gate]:
    """Starts a gate as a child process, for example `custody session …`, and stops it at the end."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    assert child.stdin is not None and child.stdout is not None, "both are pipes"
    with child:
        yield Gate(Lines(child.stdout, child.stdin))


def over_stdio() -> Gate:
    """A gate that is this process's parent, spoken to over our own stdin and stdout.

    Tasks of AgentDojo print. What was stdout becomes the protocol's alone; every later print, from
    C code too, goes to stderr instead.
    """
    sys.stdout.flush()
    writer = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    reader = os.fdopen(os.dup(0), "r", encoding="utf-8", newline="\n")
    return Gate(Lines(reader, writer))


def _decision(answer: Mapping[str, Any]) -> Decision:
    verdict = answer.get("decision")
    if verdict not in VERDICTS:
        raise ProtocolError("the gate sent a decision that is none of allow, ask, deny")
    return Decision(
        verdict=verdict,
        proposal=_take(answer, "proposal", (str, int)),
        call=_call(answer.get("call")) if verdict == "allow" else None,
        reasons=_reasons(answer.get("reasons")),
    )


def _call(wire: Any) -> Call:
    if not isinstance(wire, dict):
        raise ProtocolError("the gate allowed a call without saying which")
    return Call(_take(wire, "tool", (str,)), _take(wire, "arguments", (dict,)))


def _reasons(wire: Any) -> Reasons:
    given = wire if isinstance(wire, dict) else {}
    return Reasons(given.get("model", ""), given.get("user", ""), given.get("audit", ()))


def _error(wire: Any) -> Exception:
    if not isinstance(wire, dict):
        return ProtocolError("the gate reported an error without saying which")
    return GateError(str(wire.get("kind", "unknown")), str(wire.get("message", "")))


def _take(answer: Mapping[str, Any], name: str, types: tuple[type, ...]) -> Any:
    value = answer.get(name)
    if not isinstance(value, types):
        raise ProtocolError(f"the gate's answer lacks `{name}`")
    return value
