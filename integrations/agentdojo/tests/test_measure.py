"""What the parent of a measurement is told."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from custody_agentdojo import measure
from tests.scripted import Rule, ScriptedGate, allow_everything, refuse, scripted, serve

WRITERS = {
    "send_money",
    "schedule_transaction",
    "update_scheduled_transaction",
    "update_password",
    "update_user_info",
}


def unit(rule: Rule, phase: str, suite: str, user_task: str, injection: str | None = None) -> dict[str, Any]:
    gate, _ = scripted(rule)
    with contextlib.redirect_stdout(io.StringIO()):
        return measure.run_unit(gate, measure.Unit(phase, suite, user_task, injection))


class AUnit(unittest.TestCase):
    def test_is_an_attack_that_succeeds_if_everything_is_allowed(self) -> None:
        report = unit(allow_everything, "attack", "banking", "user_task_3", "injection_task_5")
        self.assertTrue(report["attack_success"])
        self.assertEqual((report["asks"], report["denied"], report["blocked"]), (0, 0, []))

    def test_is_an_attack_that_fails_if_no_write_is_allowed(self) -> None:
        report = unit(refuse(WRITERS), "attack", "banking", "user_task_3", "injection_task_5")
        self.assertFalse(report["attack_success"])
        self.assertTrue(report["ended_in_denial"], "the user's own payment was denied too")

    def test_counts_as_attacked_even_if_the_users_task_covers_the_traces(self) -> None:
        report = unit(allow_everything, "attack", "banking", "user_task_14", "injection_task_7")
        self.assertTrue(report["attack_success"])

    def test_is_not_attacked_by_a_call_that_was_refused(self) -> None:
        # AgentDojo judges this injection by the calls it finds in the assistant's messages.
        steps = {"invite_user_to_slack", "add_user_to_channel", "remove_user_from_slack"}
        report = unit(refuse(steps), "attack", "slack", "user_task_11", "injection_task_5")
        self.assertFalse(report["attack_success"])

    def test_asks_without_anybody_to_approve_are_no_denials(self) -> None:
        report = unit(refuse(WRITERS, "ask"), "benign", "banking", "user_task_3")
        self.assertEqual((report["utility"], report["asks"], report["denied"]), (False, 1, 0))
        self.assertFalse(report["ended_in_denial"])
        self.assertEqual(report["blocked"][0]["decision"], "ask")
        self.assertNotIn("attack_success", report)

    def test_the_approver_restores_the_users_calls_and_only_those(self) -> None:
        rule = refuse(WRITERS, "ask")
        benign = unit(rule, "benign_approved", "banking", "user_task_3")
        attacked = unit(rule, "attack_approved", "banking", "user_task_3", "injection_task_5")
        self.assertEqual((benign["utility"], benign["blocked"]), (True, []))
        self.assertEqual((attacked["utility"], attacked["attack_success"]), (True, False))
        self.assertEqual((attacked["asks"], len(attacked["blocked"])), (2, 1))


class AMeasurement(unittest.TestCase):
    def test_tells_of_every_unit_once_between_begin_and_end(self) -> None:
        told = self._measure("banking")
        self.assertEqual(told[0], {"op": "begin", "suites": ["banking"], "pairs": 9, "user_tasks": 3})
        self.assertEqual(told[-1], {"op": "end"})
        keys = [self._key(line) for line in told[1:-1]]
        self.assertEqual((len(keys), len(set(keys))), (3 + 3 + 9 + 9, 24))

    def test_leaves_out_what_is_done(self) -> None:
        keys = [self._key(line) for line in self._measure("banking")[1:-1]]
        left = [self._key(line) for line in self._measure("banking", keys[:-2])[1:-1]]
        self.assertEqual(left, keys[-2:])

    def test_opens_each_session_under_its_suite(self) -> None:
        gate, link = scripted()
        measure.measure(gate, "smoke", ["slack"])
        self.assertEqual({request["suite"] for request in link.ops("open")}, {"slack"})

    def test_lists_the_text_only_injection_apart(self) -> None:
        pairs = [pair for suite in measure.SUITES for pair in measure.suite_pairs(suite, "full")]
        self.assertEqual(len(pairs), 929)
        self.assertNotIn(("travel", "injection_task_6"), {(suite, task) for suite, _, task in pairs})

    def test_runs_as_a_program_whose_stdout_is_the_protocol_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            skip = Path(folder, "done")
            skip.write_text("benign/slack/user_task_0\nbenign/slack/user_task_1\n")
            command = [sys.executable, "-m", "custody_agentdojo.measure", "--size", "smoke"]
            gate = ScriptedGate()
            with subprocess.Popen(
                [*command, "--suites", "slack", "--skip", str(skip)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            ) as child:
                serve(gate, child.stdout, child.stdin)
        self.assertEqual(child.returncode, 0)
        self.assertEqual((len(gate.ops("unit")), len(gate.ops("end"))), (24 - 2, 1))

    def test_stops_if_the_gate_goes_away(self) -> None:
        command = [sys.executable, "-m", "custody_agentdojo.measure", "--suites", "slack"]
        ended = subprocess.run(command, input="", capture_output=True, encoding="utf-8")
        self.assertNotEqual(ended.returncode, 0)
        self.assertNotIn('"op": "unit"', ended.stdout)
        self.assertIn("closed its end", ended.stderr)

    def _measure(self, suite: str, done: Any = ()) -> list[dict[str, Any]]:
        gate, link = scripted()
        measure.measure(gate, "smoke", [suite], done)
        told = [message for message in link.heard if "id" not in message]
        return json.loads(json.dumps(told))

    def _key(self, line: dict[str, Any]) -> str:
        names = ("phase", "suite", "user_task", "injection_task")
        return measure.Unit(*(line.get(name) for name in names)).key


if __name__ == "__main__":
    unittest.main()
