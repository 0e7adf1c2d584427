"""The human of the measurement, who wants what the user asked for and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agentdojo.functions_runtime import FunctionCall


class GroundTruthApprover:
    """Says yes exactly when tool and canonical arguments equal a ground-truth call of the user's task."""

    def __init__(self, calls: Iterable[FunctionCall]) -> None:
        self._wanted = {canonical(call.function, call.args) for call in calls}

    def __call__(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        return canonical(tool, arguments) in self._wanted


def canonical(tool: str, arguments: Mapping[str, Any]) -> str:
    """One spelling for one call: sorted keys, and `50.0` written as the `50` that JSON takes it for."""
    return json.dumps([tool, _plain(arguments)], sort_keys=True, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
