"""Prints what intents are written from: prompts, and the tools as a model and a manifest have them.

    python -m custody_agentdojo.prompts > prompts.json

For each suite the user tasks, each with its id and its prompt, and the tools, each with its name,
description, JSON schema, and the kind of each sink of its manifest. Nothing that a task's author wrote
to check it is read: neither ground truth nor checks.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from agentdojo.task_suite.load_suites import get_suite

from custody_agentdojo.intents import VERSION, manifests

SUITES = ("workspace", "banking", "slack", "travel")


def prompts() -> dict[str, Any]:
    return {suite: {"tasks": _tasks(suite), "tools": _tools(suite)} for suite in SUITES}


def _tasks(suite: str) -> list[dict[str, str]]:
    tasks = get_suite(VERSION, suite).user_tasks
    return [{"id": name, "prompt": task.PROMPT} for name, task in tasks.items()]


def _tools(suite: str) -> list[dict[str, Any]]:
    described = manifests(suite)
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "schema": tool.parameters.model_json_schema(),
            "effect": described[tool.name]["effect"],
            "sinks": {
                name: {"kind": argument["sink"], "optional": argument.get("optional", False)}
                for name, argument in described[tool.name].get("arguments", {}).items()
                if "sink" in argument
            },
            "trusted_output": described[tool.name].get("trusted_output", {}),
        }
        for tool in get_suite(VERSION, suite).tools
    ]


if __name__ == "__main__":
    json.dump(prompts(), sys.stdout, indent=1, ensure_ascii=False)
