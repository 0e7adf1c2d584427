"""The calls that a session means to make, declared right after the user's message.

They come from a file that was written from the prompts and the tools' schemas and manifests alone. It
holds no text of a prompt: a value is named by where it stands there, `{"span": [start, end]}`, and
read out of the prompt when the task is played. README.md describes the format.

Everything in the file is checked before anything is played, and the first mistake names its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentdojo.task_suite.load_suites import get_suite
from agentdojo.task_suite.task_suite import TaskSuite

VERSION = "v1.2.2"
MANIFESTS = Path(__file__).parent / "manifests"
"""Beside the package when it is installed; in a checkout one folder up."""

MAX_INTENTS, MAX_VALUES, MAX_CALLS = 64, 64, 100
"""As Custody has them."""

COPY_LENGTH = 4
"""A literal of this many characters that stands in the prompt is a copy of it, and has to be a span."""

Intents = Mapping[str, Mapping[str, list[dict[str, Any]]]]
"""What is declared, by suite and user task, in the words of the session protocol."""


class IntentsError(ValueError):
    """A mistake in the file of intents. The message begins with its place."""


def load_intents(path: Path) -> Intents:
    """Reads the file, checks all of it, and resolves every span."""
    try:
        file = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as cause:
        raise IntentsError(f"{path}: this is not JSON: {cause}") from cause
    return resolve(file)


def resolve(file: Any) -> Intents:
    """The intents of each task, with the texts that its spans name."""
    return {
        suite: {
            task: _task(suite, task, intents)
            for task, intents in _object(f"{suite}", tasks).items()
        }
        for suite, tasks in _object("the file", file).items()
    }


@dataclass(frozen=True)
class Place:
    """Where in the file, and what is known there."""

    name: str
    prompt: str

    def fail(self, why: str) -> IntentsError:
        return IntentsError(f"{self.name}: {why}")

    def at(self, step: str) -> Place:
        return Place(f"{self.name}.{step}", self.prompt)


def _task(suite: str, task: str, intents: Any) -> list[dict[str, Any]]:
    name = f"{suite}.{task}"
    try:
        loaded = get_suite(VERSION, suite)
    except KeyError:
        raise IntentsError(f"{suite}: there is no such suite in {VERSION}") from None
    if task not in loaded.user_tasks:
        raise IntentsError(f"{name}: there is no such user task")
    place = Place(name, loaded.user_tasks[task].PROMPT)
    if not isinstance(intents, list) or not 1 <= len(intents) <= MAX_INTENTS:
        raise place.fail(f"a list of 1 to {MAX_INTENTS} intents is expected")
    return [_intent(place.at(str(at)), loaded, intent) for at, intent in enumerate(intents)]


def _intent(place: Place, suite: TaskSuite, intent: Any) -> dict[str, Any]:
    _keys(place, intent, {"tool"}, {"count", "sinks"})
    tool, count = intent["tool"], intent.get("count", 1)
    manifest, schema = manifests(suite.name).get(tool), _parameters(suite, tool)
    if manifest is None or schema is None:
        raise place.fail(f"`{tool}` is no tool of the suite")
    if not _is_integer(count) or not 1 <= count <= MAX_CALLS:
        raise place.fail(f"a count is 1 to {MAX_CALLS}, not {count!r}")
    sinks = {}
    for argument, value in _object(f"{place.name}.sinks", intent.get("sinks", {})).items():
        kind = manifest.get("arguments", {}).get(argument, {}).get("sink")
        if kind is None:
            raise place.fail(f"`{tool}` has no sink `{argument}`; its manifest names those that it has")
        sinks[argument] = _value(place.at(argument), kind, schema[argument], value)
    return {"tool": tool, "count": count, "sinks": sinks}


def _value(place: Place, kind: str, schema: Mapping[str, Any], value: Any) -> Any:
    """A shape of the session protocol."""
    is_number = _is_number(schema)
    if isinstance(value, list):
        return _values(place, is_number, value)
    if not isinstance(value, dict):
        return value if value is None else _literal(place, value)
    match sorted(value):
        case ["span"]:
            return _span(place, is_number, value["span"])
        case ["any_of_spans"]:
            spans = value["any_of_spans"]
            if not isinstance(spans, list):
                raise place.fail("`any_of_spans` is a list of spans")
            return _values(place, is_number, [{"span": span} for span in spans])
        case ["any"] if value["any"] is True:
            _suits(place, kind, {"id", "other"}, "any value")
            return {"any": True}
        case ["at_most", "currency"]:
            _suits(place, kind, {"amount"}, "an amount")
            bound = _one(place.at("at_most"), True, value["at_most"])
            if isinstance(bound, bool) or not isinstance(bound, (int, float)) or bound < 0:
                raise place.fail("`at_most` is an amount")
            return {"at_most": bound, "currency": _text(place.at("currency"), value["currency"])}
        case ["under"]:
            _suits(place, kind, {"path"}, "a folder")
            return {"under": _text(place.at("under"), value["under"])}
    raise place.fail(f"{sorted(value)} is no way to name values; README.md has them")


def _values(place: Place, is_number: bool, values: Sequence[Any]) -> list[Any]:
    if not 1 <= len(values) <= MAX_VALUES:
        raise place.fail(f"a list names 1 to {MAX_VALUES} values")
    return [_one(place.at(str(at)), is_number, value) for at, value in enumerate(values)]


def _one(place: Place, is_number: bool, value: Any) -> Any:
    """A single value: a span or a literal."""
    if isinstance(value, dict) and sorted(value) == ["span"]:
        return _span(place, is_number, value["span"])
    return _literal(place, value)


def _text(place: Place, value: Any) -> str:
    text = _one(place, False, value)
    if not isinstance(text, str) or not text.strip():
        raise place.fail("a text is expected")
    return text


def _span(place: Place, is_number: bool, span: Any) -> Any:
    """What stands there in the prompt, as a number if the parameter is one."""
    is_pair = isinstance(span, list) and len(span) == 2 and all(_is_integer(end) for end in span)
    if not is_pair or not 0 <= span[0] < span[1] <= len(place.prompt):
        raise place.fail(f"{span!r} is no range of the prompt, which has {len(place.prompt)} characters")
    text = place.prompt[span[0] : span[1]]
    if text != text.strip():
        raise place.fail(f"{span!r} begins or ends with a blank")
    return _number(place, span, text) if is_number else text


def _number(place: Place, span: Any, text: str) -> int | float:
    # A span of plain digits, without the sign of a currency; `1,200.50` is a literal, 1200.5.
    if re.fullmatch(r"\d+(\.\d+)?", text) is None:
        raise place.fail(f"{span!r} is for a number, and does not hold one")
    return float(text) if "." in text else int(text)


def _literal(place: Place, value: Any) -> Any:
    if not isinstance(value, (str, bool, int, float)):
        raise place.fail(f"{value!r} is neither a value nor a way to name one")
    text = str(value)
    if not isinstance(value, bool) and len(text) >= COPY_LENGTH and text in place.prompt:
        raise place.fail(f"{value!r} stands in the prompt: name it by its span")
    return value


def _suits(place: Place, kind: str, kinds: set[str], what: str) -> None:
    if kind not in kinds:
        raise place.fail(f"a sink of kind {kind} cannot have {what}")


def manifests(suite: str) -> Mapping[str, Any]:
    """The manifests of a suite's tools."""
    # Python 3.11 has it, and nothing else here needs that.
    import tomllib

    folder = MANIFESTS if MANIFESTS.is_dir() else MANIFESTS.parent.parent / "manifests"
    return tomllib.loads(folder.joinpath(f"{suite}.toml").read_text(encoding="utf-8"))["tools"]


def _parameters(suite: TaskSuite, tool: str) -> Mapping[str, Any] | None:
    for known in suite.tools:
        if known.name == tool:
            return known.parameters.model_json_schema().get("properties", {})
    return None


def _is_number(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter, or each element of one, is a number."""
    ways = schema.get("anyOf", [schema])
    ways = [way.get("items", way) if way.get("type") == "array" else way for way in ways]
    types = {way.get("type") for way in ways} - {"null"}
    return bool(types) and types <= {"number", "integer"}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise IntentsError(f"{name}: an object is expected")
    return value


def _keys(place: Place, value: Any, required: set[str], optional: set[str]) -> None:
    given = set(_object(place.name, value))
    if not required <= given <= required | optional:
        raise place.fail(f"it has {sorted(given)}; {sorted(required)} is required, {sorted(optional)} optional")
