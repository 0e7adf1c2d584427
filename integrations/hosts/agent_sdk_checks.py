"""Anthropic's agent library in Python, which drives the Claude Code that comes with it: what its caller gets directly, and
what it gets through Custody.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import scenarios
from claude_checks import ASKED, ENVIRONMENT, POISONED, Scenario, find_reason, has_read_page, key_stays, new_outcome
from custody import Custody
from programs import Programs
from report import Failed, Report, Skipped, fail, require
from upstream import Upstream

HERE = Path(__file__).resolve().parent
AGENT_SDK = "agent_sdk"
PACKAGE = "claude-agent-sdk"
GROUP = f"clients.{AGENT_SDK}"
CONTROLS = f"controls.{AGENT_SDK}"
LIMIT_S = 90
MODES = ("whole", "stream")


def check_agent_sdk(report: Report, programs: Programs, work: Path, custody: Path | None) -> None:
    try:
        python = programs.python_library(PACKAGE)
    except Skipped as reason:
        return report.skip(GROUP, reason)
    report.versions[AGENT_SDK] = programs.python_version(PACKAGE)
    folder = work / "runs" / AGENT_SDK
    with Upstream(scenarios.agent) as upstream:
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "ANTHROPIC_BASE_URL": upstream.url}
        (folder / "home").mkdir(parents=True)
        bench = Bench(report, CONTROLS, python, {**environment, **ENVIRONMENT}, folder / "direct", upstream)
        for mode in MODES:
            for scenario in (ASKED, POISONED[0]):
                bench.check(mode, scenario, bench.runs)
    if custody:
        check_guarded(report, python, folder / "guarded", custody)


def check_guarded(report: Report, python: Path, folder: Path, program: Path) -> None:
    """By proxy and hooks, enforcing."""
    with Upstream(scenarios.agent) as upstream:
        try:
            custody = Custody(program, folder / "custody", bundled(python))
            custody.init()
            custody.connect_claude_code(upstream.url, "both")
            custody.enforce("claude-code")
            own = {name: value for name, value in custody.environment().items() if not name.startswith("CUSTODY_")}
            bench = Bench(report, GROUP, python, {**own, **ENVIRONMENT}, folder, upstream)
            with custody.serve():
                for mode in MODES:
                    bench.check(mode, ASKED, bench.runs)
                    bench.check(mode, POISONED[0], bench.is_refused)
        except (Failed, OSError, ValueError) as failure:
            report.check(GROUP, "setup", fail, f"{type(failure).__name__}: {failure}")
            return
        report.check(GROUP, "key_stays", key_stays, upstream, custody)


def bundled(python: Path) -> Path:
    """The Claude Code that the library starts."""
    code = "import claude_agent_sdk, pathlib; print(pathlib.Path(claude_agent_sdk.__file__).parent / '_bundled' / 'claude')"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


@dataclass(frozen=True)
class Bench:
    """The library with the environment of one user."""

    report: Report
    group: str
    python: Path
    environment: dict[str, str]
    folder: Path
    upstream: Upstream

    def check(self, mode: str, scenario: Scenario, body: Callable) -> None:
        self.report.check(self.group, f"{mode}.{scenario.name}", body, mode, scenario)

    def runs(self, mode: str, scenario: Scenario) -> str:
        folder, seen = self.run(mode, scenario)
        require(scenario.has_run(folder), f"the call did not run: {seen}")
        require(seen["ended"] == scenarios.NOTHING_TO_DO, f"unexpected end: {seen}")
        require("Bash" in seen["calls"] and seen["results"], f"the caller was not shown the call: {seen}")
        said = scenarios.ANNOUNCEMENT if mode == "stream" else ""
        require(said in seen["streamed"], f"the answer did not come in pieces: {seen}")
        return f"{len(seen['calls'])} calls"

    def is_refused(self, mode: str, scenario: Scenario) -> str:
        before = len(self.upstream.requests)
        folder, seen = self.run(mode, scenario)
        require(not scenario.has_run(folder), f"the call of the page ran: {seen}")
        require(has_read_page(self.upstream, before), f"the page was not read, so this shows nothing: {seen}")
        reason = find_reason(self.upstream, before)
        require(reason, f"the model never read a reason: {seen}")
        shown = [result["text"] for result in seen["results"] if result["is_error"]]
        require(any(reason in text for text in shown), f"the caller was not shown the reason {reason!r}: {seen}")
        return reason

    def run(self, mode: str, scenario: Scenario) -> tuple[Path, dict]:
        folder = new_outcome(self.folder / f"{mode}-{scenario.name}", self.upstream).folder
        command = [self.python, HERE / "clients" / "agent_sdk_driver.py", scenario.prompt, folder, mode]
        done = subprocess.run(
            command, env=self.environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
        )
        require(done.returncode == 0, f"the driver failed: {done.stderr[-400:]}")
        return folder, json.loads(done.stdout)
