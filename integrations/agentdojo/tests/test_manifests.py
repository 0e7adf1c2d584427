"""That the manifests name what the tools have, and say it in the words that a manifest knows."""

import tomllib
import unittest
from pathlib import Path
from typing import Any

from agentdojo.task_suite.load_suites import get_suite

from custody_agentdojo.measure import SUITES, VERSION

MANIFESTS = Path(__file__).parent.parent / "manifests"
SINKS = {"recipient", "url", "amount", "account", "path", "command", "id", "other"}


def manifest(suite: str) -> dict[str, Any]:
    return tomllib.loads(MANIFESTS.joinpath(f"{suite}.toml").read_text(encoding="utf-8"))["tools"]


class EachManifest(unittest.TestCase):
    def test_names_every_tool_and_every_argument_and_nothing_else(self) -> None:
        for suite in SUITES:
            tools = get_suite(VERSION, suite).tools
            expected = {tool.name: set(tool.parameters.model_fields) for tool in tools}
            named = {name: set(tool.get("arguments", {})) for name, tool in manifest(suite).items()}
            self.assertEqual(named, expected, suite)

    def test_uses_no_word_that_a_manifest_does_not_know(self) -> None:
        for suite in SUITES:
            for name, tool in manifest(suite).items():
                with self.subTest(f"{suite}.{name}"):
                    known = {"effect", "text_leaves", "arguments", "trusted_output", "authors"}
                    self.assertLessEqual(tool.keys(), known)
                    self.assertIn(tool["effect"], {"reads", "writes"})
                    for argument in tool.get("arguments", {}).values():
                        self.assertLessEqual(argument.keys(), {"sink", "fields", "values", "optional"})
                        self.assertIn(argument.get("sink", "other"), SINKS)

    def test_gives_every_writer_a_sink(self) -> None:
        for suite in SUITES:
            for name, tool in manifest(suite).items():
                if tool["effect"] == "writes":
                    sinks = [a for a in tool["arguments"].values() if "sink" in a]
                    self.assertTrue(sinks, f"{suite}.{name}")

    def test_says_the_same_of_the_arguments_that_two_suites_share(self) -> None:
        workspace, travel = manifest("workspace"), manifest("travel")
        for name in workspace.keys() & travel.keys():
            for part in ("effect", "arguments"):
                self.assertEqual(workspace[name].get(part), travel[name].get(part), name)


if __name__ == "__main__":
    unittest.main()
