"""One line for each check, and the figures of the whole run."""

from __future__ import annotations

from collections import Counter


class Failed(Exception):
    """A check that did not hold, with what was seen instead."""


class Skipped(Exception):
    """A program that could not be run here, with the reason."""


# The words at the beginning of a line, and what they count as.
COUNTED_AS = {"ok": "passed", "FAILED": "failed", "skipped": "skipped"}


class Report:
    def __init__(self) -> None:
        self.figures: Counter[str] = Counter()
        self.versions: dict[str, str] = {}
        self.has_failed = False

    def check(self, group: str, name: str, body, *arguments: object) -> bool:
        """Runs one check and prints its line. `group` is where it counts, such as `clients.openai_py`."""
        try:
            detail = body(*arguments)
            return self._line("ok", group, name, detail)
        except Failed as failure:
            return self._line("FAILED", group, name, failure)
        except Exception as error:  # a broken check must not hide the others
            return self._line("FAILED", group, name, f"{type(error).__name__}: {error}")

    def skip(self, group: str, reason: object) -> None:
        self._line("skipped", group, "", reason)

    def all_figures(self) -> dict[str, object]:
        return {**self.figures, **{f"versions.{name}": seen for name, seen in self.versions.items()}}

    def _line(self, state: str, group: str, name: str, detail: object) -> bool:
        self.has_failed |= state == "FAILED"
        self.figures[f"{group}.{COUNTED_AS[state]}"] += 1
        title = f"{group}.{name}" if name else group
        print(f"{state} {title}: {one_line(detail)}" if detail else f"{state} {title}", flush=True)
        return state == "ok"


def require(condition: object, otherwise: object) -> None:
    if not condition:
        raise Failed(str(otherwise))


def fail(reason: object) -> None:
    """A check that cannot hold, because what it needs did not come about."""
    raise Failed(str(reason))


def one_line(value: object, limit: int = 400) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
