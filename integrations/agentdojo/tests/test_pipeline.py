"""What the executor runs, what it records, and what the model reads."""

import unittest
from collections.abc import Mapping, Sequence
from typing import Any

from agentdojo.agent_pipeline.base_pipeline_element import BasePipelineElement
from agentdojo.functions_runtime import EmptyEnv, FunctionCall, FunctionsRuntime, make_function
from agentdojo.types import ChatAssistantMessage, ChatMessage, text_content_block_from_string

from custody_agentdojo.gate import Gate
from custody_agentdojo.pipeline import Session, custody_pipeline
from tests.scripted import MODEL_TEXT, ScriptedGate, allow_everything, refuse, scripted

RAN: list[tuple[str, Any]] = []


def pay(amount: int) -> str:
    """Pays.

    :param amount: How much.
    """
    RAN.append(("pay", amount))
    return f"paid {amount}"


def fail(reason: str) -> str:
    """Fails.

    :param reason: Why.
    """
    raise ValueError(reason)


class Script(BasePipelineElement):
    """A model that makes the given calls, one message each, and then says it is done."""

    name = "script"

    def __init__(self, *turns: Sequence[FunctionCall]) -> None:
        self._turns = [*turns]

    def query(self, query, runtime, env=EmptyEnv(), messages=(), extra_args={}):
        calls = self._turns.pop(0) if self._turns else []
        content = [text_content_block_from_string("thinking" if calls else "done")]
        message = ChatAssistantMessage(role="assistant", content=content, tool_calls=[*calls])
        return query, runtime, env, [*messages, message], extra_args


def call(function: str, **args: Any) -> FunctionCall:
    return FunctionCall(function=function, args=args, id="call-1")


def run(
    link: ScriptedGate, *turns: Sequence[FunctionCall], **options: Any
) -> tuple[list[ChatMessage], Session]:
    """The messages after one conversation, and its session."""
    RAN.clear()
    sessions: list[Session] = []
    runtime = FunctionsRuntime([make_function(pay), make_function(fail)])
    pipeline = custody_pipeline(
        Script(*turns), Gate(link), system_message="Be good.", on_end=sessions.append, **options
    )
    messages = pipeline.query("Pay 5.", runtime, EmptyEnv())[3]
    return list(messages), sessions[0]


def outputs(messages: Sequence[ChatMessage]) -> list[tuple[str, str | None]]:
    return [(m["content"][0]["content"], m["error"]) for m in messages if m["role"] == "tool"]


def traced(messages: Sequence[ChatMessage]) -> list[str]:
    """The tools in the calls that AgentDojo's checks would find."""
    made = [m["tool_calls"] or [] for m in messages if m["role"] == "assistant"]
    return [one.function for calls in made for one in calls]


class TheExecutor(unittest.TestCase):
    def test_runs_the_call_that_the_gate_returned_and_no_other(self) -> None:
        class Canonical(ScriptedGate):
            def _say(self, verdict: str, proposal: int) -> dict[str, Any]:
                allowed = {"tool": "pay", "arguments": {"amount": 4}}
                return super()._say(verdict, proposal) | {"call": allowed}

        messages, _ = run(Canonical(), [call("pay", amount=5)])
        self.assertEqual(RAN, [("pay", 4)])
        self.assertEqual(messages[2]["tool_calls"][0].args, {"amount": 4})

    def test_records_everything_once_and_in_order(self) -> None:
        link = ScriptedGate()
        run(link, [call("pay", amount=5)], [call("fail", reason="broken")])
        said = [
            (m["op"], m.get("channel"), m.get("text") or m.get("call", {}).get("tool"), m.get("error"))
            for m in link.heard
        ]
        self.assertEqual(
            said,
            [
                ("open", None, None, None),
                ("tools", None, None, None),
                ("observe", "system", "Be good.", None),
                ("observe", "user", "Pay 5.", None),
                ("observe", "model", "thinking", None),
                ("propose", None, "pay", None),
                ("result", None, "paid 5", False),
                ("observe", "model", "thinking", None),
                ("propose", None, "fail", None),
                ("result", None, "ValueError: broken", True),
                ("observe", "model", "done", None),
                ("close", None, None, None),
            ],
        )

    def test_announces_each_tool_with_its_schema(self) -> None:
        link = ScriptedGate()
        run(link, [call("pay", amount=5)])
        tools = {tool["name"]: tool for tool in link.ops("tools")[0]["tools"]}
        self.assertEqual(sorted(tools), ["fail", "pay"])
        self.assertEqual(tools["pay"]["inputSchema"]["required"], ["amount"])

    def test_a_refused_call_does_not_run_and_the_model_reads_the_gates_text(self) -> None:
        for verdict in ("ask", "deny"):
            with self.subTest(verdict):
                link = ScriptedGate(refuse({"pay"}, verdict))
                messages, session = run(link, [call("pay", amount=5)])
                self.assertEqual(outputs(messages), [("", MODEL_TEXT)])
                self.assertEqual((RAN, link.ops("result")), ([], []))
                self.assertEqual([b.decision for b in session.blocked], [verdict])

    def test_a_refused_call_is_no_trace_of_having_acted(self) -> None:
        link = ScriptedGate(refuse({"pay"}))
        messages, _ = run(link, [call("pay", amount=5), call("fail", reason="x")], [call("pay", amount=6)])
        self.assertEqual(traced(messages), ["fail"])

    def test_a_call_that_the_loop_no_longer_ran_is_no_trace_either(self) -> None:
        messages, _ = run(ScriptedGate(), [call("pay", amount=5)], [call("pay", amount=6)], max_iters=1)
        self.assertEqual((RAN, traced(messages)), ([("pay", 5)], ["pay"]))

    def test_a_call_that_the_gate_cannot_read_does_not_run(self) -> None:
        class Strict(ScriptedGate):
            def _propose(self, call: Mapping[str, Any]) -> dict[str, Any]:
                return {"error": {"kind": "not_i_json", "message": "too large"}}

        messages, session = run(Strict(), [call("pay", amount=2**53 + 1)])
        self.assertEqual((RAN, session.blocked[0].decision), ([], "deny"))
        self.assertTrue(outputs(messages)[0][1])

    def test_neither_an_unknown_tool_nor_a_call_within_a_call_reaches_the_gate(self) -> None:
        nested = FunctionCall(function="pay", args={"amount": call("pay", amount=1)})
        for made in (call("steal"), nested):
            with self.subTest(made.function):
                link = ScriptedGate()
                messages, _ = run(link, [made])
                self.assertEqual((RAN, link.ops("propose")), ([], []))
                self.assertTrue(outputs(messages)[0][1])

    def test_lists_written_as_strings_are_decided_as_lists(self) -> None:
        link = ScriptedGate()
        run(link, [call("pay", amount="[1, 2]")])
        self.assertEqual(link.ops("propose")[0]["call"]["arguments"], {"amount": [1, 2]})

    def test_only_the_approver_turns_an_ask_into_a_call(self) -> None:
        turns = [call("pay", amount=5)], [call("pay", amount=6)]
        link = ScriptedGate(refuse({"pay"}, "ask"))
        _, session = run(link, *turns, approver=lambda tool, arguments: arguments == {"amount": 5})
        self.assertEqual(RAN, [("pay", 5)])
        self.assertEqual((len(session.asked), len(session.blocked)), (2, 1))

    def test_one_proposal_asked_twice_is_one_request(self) -> None:
        link = ScriptedGate(refuse({"pay"}, "ask"))
        _, session = run(link, [call("pay", amount=5)], [call("pay", amount=5)])
        self.assertEqual((len(session.asked), len(session.blocked)), (1, 2))

    def test_conversations_do_not_share_a_session(self) -> None:
        gate, link = scripted(allow_everything)
        runtime = FunctionsRuntime([make_function(pay)])
        for _ in range(2):
            pipeline = custody_pipeline(Script([call("pay", amount=5)]), gate)
            pipeline.query("Pay 5.", runtime, EmptyEnv())
        self.assertEqual((len(link.ops("open")), len(link.ops("close"))), (2, 2))


if __name__ == "__main__":
    unittest.main()
