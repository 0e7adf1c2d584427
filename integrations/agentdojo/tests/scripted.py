"""A gate that follows a script, for tests: it speaks the session protocol and decides by rule.

As a `Link` it stands in for the whole other side. As a program, `python -m tests.scripted`, it
answers on stdin and stdout, to test the pipes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from custody_agentdojo.gate import Gate

Rule = Callable[[str, Mapping[str, Any]], str]
"""What to say to a tool and its arguments: `allow`, `ask` or `deny`."""

MODEL_TEXT = "This call needs an approval that it does not have."


def allow_everything(tool: str, arguments: Mapping[str, Any]) -> str:
    return "allow"


def refuse(tools: Collection[str], verdict: str = "deny") -> Rule:
    return lambda tool, arguments: verdict if tool in tools else "allow"


class ScriptedGate:
    """Answers each request as it is sent, and remembers them all in `heard`."""

    def __init__(self, rule: Rule = allow_everything) -> None:
        self.rule = rule
        self.takes_intents = True
        self.heard: list[Mapping[str, Any]] = []
        self._answers: list[Mapping[str, Any]] = []
        self._proposals: list[Mapping[str, Any]] = []
        self._asked: dict[str, int] = {}
        self._approved: set[int] = set()

    def send(self, message: Mapping[str, Any]) -> None:
        message = json.loads(json.dumps(message, allow_nan=False))
        self.heard.append(message)
        if "id" in message:
            self._answers.append({"id": message["id"], **self.answer(message)})

    def receive(self) -> Any:
        return self._answers.pop(0)

    def ops(self, name: str) -> list[Mapping[str, Any]]:
        return [message for message in self.heard if message["op"] == name]

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        match request["op"]:
            case "open":
                return {"session": "session-1"}
            case "tools":
                names = [tool["name"] for tool in request["tools"]]
                return {"tools": [_held(name) for name in names]}
            case "observe" | "result":
                return {"entries": [{"entry": len(self.heard), "taint": "clean"}]}
            case "intend":
                reasons = {"model": "", "user": "it takes none", "audit": []}
                return {"decision": "allow" if self.takes_intents else "deny", "reasons": reasons}
            case "propose":
                return self._propose(request["call"])
            case "decide":
                return self._decide(request["proposal"])
            case "approve":
                self._approved.add(request["proposal"])
                return {"approved": True}
            case "close":
                return {}
        return {"error": {"kind": "unknown_op", "message": request["op"]}}

    def _propose(self, call: Mapping[str, Any]) -> dict[str, Any]:
        verdict = self.rule(call["tool"], call["arguments"])
        key = json.dumps(call, sort_keys=True)
        if verdict == "ask" and key in self._asked:
            return self._say("ask", self._asked[key])
        self._proposals.append(call)
        proposal = len(self._proposals) - 1
        if verdict == "ask":
            self._asked[key] = proposal
        return self._say(verdict, proposal)

    def _decide(self, proposal: int) -> dict[str, Any]:
        if proposal not in self._approved:
            return self._say("ask", proposal)
        self._approved.remove(proposal)
        return self._say("allow", proposal)

    def _say(self, verdict: str, proposal: int) -> dict[str, Any]:
        reasons = {"model": MODEL_TEXT, "user": "to the user", "audit": [verdict]}
        answer = {"decision": verdict, "proposal": proposal, "reasons": reasons}
        return answer | ({"call": self._proposals[proposal]} if verdict == "allow" else {})


def scripted(rule: Rule = allow_everything) -> tuple[Gate, ScriptedGate]:
    link = ScriptedGate(rule)
    return Gate(link), link


def serve(gate: ScriptedGate, requests: Any, answers: Any) -> None:
    """Answers every line of `requests` until it ends."""
    for line in requests:
        gate.send(json.loads(line))
        if "id" in gate.heard[-1]:
            answers.write(json.dumps(gate.receive()) + "\n")
            answers.flush()


def _held(name: str) -> dict[str, Any]:
    return {"name": name, "effect": "writes", "known": False, "changed": False}


if __name__ == "__main__":
    serve(ScriptedGate(), sys.stdin, sys.stdout)
