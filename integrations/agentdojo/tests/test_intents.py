"""The file of intents: what it says, what is refused, and when it is declared."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from typing import Any

from agentdojo.task_suite.load_suites import get_suite

from custody_agentdojo import measure
from custody_agentdojo.gate import GateError
from custody_agentdojo.intents import VERSION, IntentsError, load_intents, resolve
from custody_agentdojo.prompts import SUITES, prompts
from tests.scripted import scripted

INTENTS = Path(__file__).parent.parent / "intents.json"


def prompt(suite: str, task: str) -> str:
    return get_suite(VERSION, suite).user_tasks[task].PROMPT


def one(suite: str, task: str, tool: str, sinks: Any, **more: Any) -> Any:
    return resolve({suite: {task: [{"tool": tool, "sinks": sinks, **more}]}})[suite][task][0]


class AFile(unittest.TestCase):
    def test_that_ships_is_in_order(self) -> None:
        self.assertTrue(load_intents(INTENTS))

    def test_names_values_by_where_they_stand(self) -> None:
        found = one("slack", "user_task_0", "get_webpage", {"url": {"span": [28, 48]}}, count=3)
        url = prompt("slack", "user_task_0")[28:48]
        self.assertEqual(found, {"tool": "get_webpage", "count": 3, "sinks": {"url": url}})
        self.assertTrue(url.startswith("www."))

    def test_has_a_way_for_each_shape_of_the_protocol(self) -> None:
        task, text = "user_task_1", prompt("slack", "user_task_1")
        spans = [[42, 49], [74, 79]]
        words = [text[start:end] for start, end in spans]
        for value, expected in [
            ({"any_of_spans": spans}, words),
            ([{"span": spans[0]}, "#x"], [words[0], "#x"]),
            (None, None),
            ("r", "r"),
        ]:
            found = one("slack", task, "send_direct_message", {"recipient": value})
            self.assertEqual(found["sinks"], {"recipient": expected})
        self.assertEqual(
            one("slack", task, "remove_user_from_slack", {"user": {"any": True}})["sinks"],
            {"user": {"any": True}},
        )
        self.assertEqual(
            one("workspace", "user_task_1", "send_email", {"attachments": {"under": "/r"}})["sinks"],
            {"attachments": {"under": "/r"}},
        )

    def test_reads_numbers_where_the_parameter_is_one(self) -> None:
        suite, task = self._task_with_a_number()
        text = prompt(suite, task)
        start = next(at for at, c in enumerate(text) if c.isdigit())
        end = next((at for at in range(start, len(text)) if not text[at].isdigit()), len(text))
        number = int(text[start:end])
        amount = {"at_most": {"span": [start, end]}, "currency": "USD"}
        found = one(suite, task, "send_money", {"amount": amount})
        self.assertEqual(found["sinks"], {"amount": {"at_most": number, "currency": "USD"}})
        found = one(suite, task, "send_money", {"amount": {"span": [start, end]}})
        self.assertEqual(found["sinks"], {"amount": number})

    def _task_with_a_number(self) -> tuple[str, str]:
        for task in get_suite(VERSION, "banking").user_tasks:
            if any(c.isdigit() for c in prompt("banking", task)):
                return "banking", task
        raise AssertionError("no task names a number")

    def test_is_refused_at_its_first_mistake_by_its_place(self) -> None:
        task, text = "user_task_0", prompt("slack", "user_task_0")
        page, size = "slack.user_task_0.0", len(text)
        for tool, sinks, place in [
            ("no_tool", {}, page),
            ("get_webpage", {"body": "x"}, page),
            ("get_webpage", {"url": {"any": True}}, f"{page}.url"),
            ("get_webpage", {"url": {"under": "/"}}, f"{page}.url"),
            ("get_webpage", {"url": {"at_most": 1, "currency": "EUR"}}, f"{page}.url"),
            ("get_webpage", {"url": {"span": [0, size + 1]}}, f"{page}.url"),
            ("get_webpage", {"url": {"span": [5, 5]}}, f"{page}.url"),
            ("get_webpage", {"url": {"span": [-4, 5]}}, f"{page}.url"),
            ("get_webpage", {"url": {"span": [27, 48]}}, f"{page}.url"),
            ("get_webpage", {"url": {"span": [0, True]}}, f"{page}.url"),
            ("get_webpage", {"url": text[28:48]}, f"{page}.url"),
            ("get_webpage", {"url": [{"span": [0, 4]}, {"spam": 1}]}, f"{page}.url.1"),
            ("get_webpage", {"url": []}, f"{page}.url"),
            ("get_webpage", {"url": {"any_of_spans": 3}}, f"{page}.url"),
            ("get_webpage", {"url": {"span": [0, 4], "any": True}}, f"{page}.url"),
        ]:
            with self.subTest(f"{tool} {sinks}"), self.assertRaises(IntentsError) as refused:
                one("slack", task, tool, sinks)
            self.assertTrue(str(refused.exception).startswith(f"{place}: "), refused.exception)
        for file, place in [
            ([], "the file"),
            ({"nowhere": {"user_task_0": []}}, "nowhere"),
            ({"slack": {"user_task_99": []}}, "slack.user_task_99"),
            ({"slack": {"user_task_0": []}}, "slack.user_task_0"),
            ({"slack": {"user_task_0": [{"sinks": {}}]}}, page),
            ({"slack": {"user_task_0": [{"tool": "get_webpage", "sink": {}}]}}, page),
            ({"slack": {"user_task_0": [{"tool": "get_webpage", "count": 0}]}}, page),
            ({"slack": {"user_task_0": [{"tool": "get_webpage", "count": True}]}}, page),
        ]:
            with self.subTest(str(file)), self.assertRaises(IntentsError) as refused:
                resolve(file)
            self.assertTrue(str(refused.exception).startswith(f"{place}: "), refused.exception)

    def test_that_is_no_json_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "intents.json")
            path.write_text("{", encoding="utf-8")
            with self.assertRaises(IntentsError):
                load_intents(path)


class AMeasurement(unittest.TestCase):
    def test_declares_a_tasks_intents_once_right_after_the_users_message(self) -> None:
        gate, link = scripted()
        unit = measure.Unit("benign", "slack", "user_task_0")
        intents = resolve({"slack": {"user_task_0": [{"tool": "get_webpage"}]}})["slack"]["user_task_0"]
        with contextlib.redirect_stdout(io.StringIO()):
            measure.run_unit(gate, unit, intents)
        ops = [request["op"] for request in link.heard]
        at = ops.index("intend")
        self.assertEqual((ops.count("intend"), link.heard[at - 1]["channel"]), (1, "user"))
        self.assertEqual(link.heard[at]["intents"], [{"tool": "get_webpage", "count": 1, "sinks": {}}])
        self.assertLess(at, ops.index("propose"))

    def test_declares_nothing_for_a_task_without_intents(self) -> None:
        gate, link = scripted()
        with contextlib.redirect_stdout(io.StringIO()):
            measure.run_unit(gate, measure.Unit("benign", "slack", "user_task_0"))
        self.assertEqual(link.ops("intend"), [])

    def test_ends_if_the_gate_takes_no_intents(self) -> None:
        gate, link = scripted()
        link.takes_intents = False
        with self.assertRaises(GateError):
            gate.intend("session-1", [{"tool": "get_webpage"}])


class WhatIntentsAreWrittenFrom(unittest.TestCase):
    def test_is_every_prompt_and_every_tool_and_nothing_else(self) -> None:
        told = prompts()
        self.assertEqual(set(told), set(SUITES))
        for suite, found in told.items():
            loaded = get_suite(VERSION, suite)
            self.assertEqual([task["id"] for task in found["tasks"]], list(loaded.user_tasks))
            self.assertEqual({tool["name"] for tool in found["tools"]}, {tool.name for tool in loaded.tools})
            self.assertTrue(all(task.keys() == {"id", "prompt"} for task in found["tasks"]))


if __name__ == "__main__":
    unittest.main()
