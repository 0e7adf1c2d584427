"""What the client of the session protocol believes, and what it refuses to."""

import io
import sys
import unittest
from typing import Any

from custody_agentdojo.gate import Call, Gate, GateError, Lines, ProtocolError, spawn
from tests.scripted import refuse, scripted

ALLOW = '{"id": 1, "decision": "allow", "proposal": 7, "call": {"tool": "t", "arguments": {"n": 1}}}'


def propose(answer: str) -> Any:
    gate = Gate(Lines(io.StringIO(answer), io.StringIO()))
    return gate.propose("session", Call("t", {"n": 1.0}))


class TheClient(unittest.TestCase):
    def test_takes_the_call_from_the_answer(self) -> None:
        self.assertEqual(propose(ALLOW + "\n").call, Call("t", {"n": 1}))

    def test_believes_nothing_doubtful(self) -> None:
        cases = {
            "no answer": "",
            "a line that was cut off": ALLOW,
            "a line that is not JSON": "allow\n",
            "an answer that is no object": "[1]\n",
            "another request's answer": ALLOW.replace('"id": 1', '"id": 2') + "\n",
            "an unknown decision": '{"id": 1, "decision": "yes", "proposal": 7}\n',
            "no proposal": '{"id": 1, "decision": "deny"}\n',
            "an allow without its call": '{"id": 1, "decision": "allow", "proposal": 7}\n',
            "an allow without arguments": ALLOW.replace('"arguments"', '"args"') + "\n",
            "an error without a kind": '{"id": 1, "error": "no"}\n',
        }
        for name, answer in cases.items():
            with self.subTest(name), self.assertRaises(ProtocolError):
                propose(answer)

    def test_an_error_is_an_exception_with_its_kind(self) -> None:
        with self.assertRaises(GateError) as caught:
            propose('{"id": 1, "error": {"kind": "not_i_json", "message": "too large"}}\n')
        self.assertEqual((caught.exception.kind, caught.exception.message), ("not_i_json", "too large"))

    def test_a_refusal_carries_no_call_even_if_the_answer_does(self) -> None:
        self.assertIsNone(propose(ALLOW.replace("allow", "ask") + "\n").call)

    def test_what_json_cannot_say_is_never_sent(self) -> None:
        written = io.StringIO()
        with self.assertRaises(GateError):
            Gate(Lines(io.StringIO(), written)).propose("session", Call("t", {"n": float("nan")}))
        self.assertEqual(written.getvalue(), "")

    def test_one_request_is_one_line_whatever_its_text_holds(self) -> None:
        written = io.StringIO()
        gate = Gate(Lines(io.StringIO('{"id": 1, "entries": []}\n'), written))
        gate.observe("session", "message", "user", "one\ntwo\u2028three")
        self.assertEqual(len(written.getvalue().splitlines()), 1)

    def test_an_approved_proposal_is_allowed_exactly_once(self) -> None:
        gate, _ = scripted(refuse({"t"}, "ask"))
        session = gate.open()
        asked = gate.propose(session, Call("t", {}))
        gate.approve(session, asked.proposal)
        verdicts = [gate.decide(session, asked.proposal).verdict for _ in range(2)]
        self.assertEqual((asked.verdict, verdicts), ("ask", ["allow", "ask"]))

    def test_speaks_to_a_child_process(self) -> None:
        with spawn([sys.executable, "-m", "tests.scripted"]) as gate:
            session = gate.open(alias="é")
            self.assertEqual(gate.propose(session, Call("t", {"a": "ü"})).call, Call("t", {"a": "ü"}))
            gate.close(session)


if __name__ == "__main__":
    unittest.main()
