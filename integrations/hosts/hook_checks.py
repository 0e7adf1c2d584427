"""Codex, Gemini CLI and Copilot CLI: what each does when its model obeys a page, and what Custody leaves of that: with
the hook that `custody hook install` wrote, with its requests coming by Custody, and with both.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import scenarios
from claude_checks import ASKED, POISONED, Scenario, Switch
from custody import KEY_HEADER, Custody
from faults import FAULTS
from hosts import HookedHost, Program, Run, never, version, write_settings
from programs import Programs
from report import Failed, Report, Skipped, fail, require
from upstream import Request, Upstream
from wire import Reply, ToolCall

AGENTS = Scenario("page_agents", scenarios.ASK_READ_REMEMBER_AGENTS, lambda folder: (folder / "AGENTS.md").exists())
# What a page wants: a deleted file, and a line in an instruction file.
DEMANDS = (POISONED[0], POISONED[1], AGENTS)
APPROVE = re.compile(r"custody session approve (e-[0-9a-f]+)")


def check_host(report: Report, host: HookedHost, programs: Programs, work: Path, custody: Path | None) -> None:
    try:
        binary = programs.host(host.name)
    except Skipped as reason:
        return report.skip(host.group, reason)
    folder = work / "runs" / host.name
    report.versions[host.name] = version(binary, folder)
    check_directly(report, host, binary, folder / "direct")
    if custody:
        check_hook(report, host, binary, folder / "hook", custody)
        for surface in ("proxy", "both"):
            check_proxied(report, host, binary, folder / surface, custody, surface)


# Controls: without Custody everything runs.


def check_directly(report: Report, host: HookedHost, binary: Path, folder: Path) -> None:
    home = folder / "home"
    write_settings(host, home)
    program = Program(host, binary, {"PATH": os.environ["PATH"], "HOME": str(home)})
    with Upstream(scenarios.agent) as upstream:
        for scenario in (ASKED, *DEMANDS):
            report.check(f"controls.{host.name}", scenario.name, runs, program, folder / scenario.name, upstream, scenario)


def runs(program: Program, folder: Path, upstream: Upstream, scenario: Scenario) -> str:
    before = len(upstream.requests)
    run = program.run(folder, scenario.prompt, upstream.url)
    require(scenario.has_run(run.folder), f"the call did not run: {run}")
    return f"{len(upstream.requests) - before} requests"


# With Custody's hook.


def check_hook(report: Report, host: HookedHost, binary: Path, folder: Path, program: Path) -> None:
    try:
        bench = installed(report, host, binary, folder, program)
    except (Failed, OSError, ValueError) as failure:
        report.check(host.group, "setup", fail, f"{type(failure).__name__}: {failure}")
        return
    with bench.upstream:
        with bench.custody.serve():
            bench.check_served()
        bench.check_faults()
        bench.check("uninstalled", bench.is_uninstalled)


def check_proxied(report: Report, host: HookedHost, binary: Path, folder: Path, program: Path, surface: str) -> None:
    """With the host's requests coming by Custody, as `custody connect` set it up."""
    with Upstream(Switch()) as upstream:
        try:
            custody = Custody(program, folder / "custody", binary)
            write_settings(host, custody.home)
            files = changed_files(host, surface)
            before = [read_if_there(custody.home / file) for file in files]
            custody.init()
            options = host.install if surface == "both" else ()
            variables = custody.connect_host(host.name, upstream.url, surface, *options)
            custody.enforce(host.name)
        except (Failed, OSError, ValueError, KeyError) as failure:
            report.check(host.group, f"{surface}.setup", fail, f"{type(failure).__name__}: {failure}")
            return
        program = Program(host, binary, {**own_environment(custody), **variables})
        bench = Bench(report, program, folder, upstream, custody, before, surface)
        with custody.serve():
            bench.check("asked_command", bench.asked_runs if surface == "both" else bench.asked_waits)
            for scenario in DEMANDS:
                bench.check(scenario.name, bench.demand_is_refused, scenario)
            bench.check("key_stays", bench.key_stays)
        bench.check("fault.killed", bench.survives, "killed", FAULTS["killed"])
        bench.check("undone", bench.is_undone)


def changed_files(host: HookedHost, surface: str) -> list[str]:
    """The files that `custody connect` changes."""
    files = [host.file if surface == "both" else "", host.proxied_file]
    return [file for file in files if file]


def own_environment(custody: Custody) -> dict[str, str]:
    return {name: value for name, value in custody.environment().items() if not name.startswith("CUSTODY_")}


def installed(report: Report, host: HookedHost, binary: Path, folder: Path, program: Path) -> Bench:
    # The host starts a copy, so that it can be taken away from under it.
    own = folder / "program" / "custody"
    own.parent.mkdir(parents=True)
    shutil.copy(program, own)
    custody = Custody(own, folder / "custody", binary)
    write_settings(host, custody.home)
    before = read_if_there(custody.home / host.file)
    custody.init()
    custody.install_hook(host.name, *host.install)
    return Bench(report, Program(host, binary, own_environment(custody)), folder, Upstream(Switch()), custody, [before])


def read_if_there(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


@dataclass
class Bench:
    """A host whose hook is installed."""

    report: Report
    program: Program
    folder: Path
    upstream: Upstream
    custody: Custody
    # What the files held that were changed.
    before: list[bytes | None]
    surface: str = "hook"

    @property
    def url(self) -> str:
        """The model's, unless the host's settings send its requests to Custody."""
        return self.upstream.url if self.surface == "hook" else ""

    @property
    def group(self) -> str:
        return self.program.host.group

    def check_served(self) -> None:
        counted = ("allowed_ran", "denied_ran", "faults_blocked", "faults_open")
        self.report.figures.update({f"{self.group}.{name}": 0 for name in counted})
        self.check("observing.asked_command", self.runs_observing, ASKED)
        self.check("observing.page_delete", self.runs_observing, DEMANDS[0])
        self.check("trusted", self.is_trusted)
        self.check("selftest", self.custody.selftest, self.program.host.name)
        self.custody.enforce(self.program.host.name)
        self.check("asked_command", self.asked_runs)
        if not self.program.host.asks:
            # First: a question that waits already is not put again in another conversation.
            self.check("approved", self.approved_call_runs_once)
        for scenario in DEMANDS:
            self.check(scenario.name, self.demand_is_refused, scenario)
        self.check("key_stays", self.key_stays)

    def check_faults(self) -> None:
        """Whatever happens to Custody, the call does not run."""
        for name, happens in FAULTS.items():
            self.check(f"fault.{name}", self.survives, name, happens)
        self.check("fault.never_started", self.fault_blocks, "never_started")

    def runs_observing(self, scenario: Scenario) -> str:
        run = self._run(f"observing-{scenario.name}", scenario.prompt)
        require(scenario.has_run(run.folder), f"the call did not run: {run}")
        return ""

    def is_trusted(self) -> str:
        status = self.custody.hook_status()
        require(status["as_written"], f"the hook is not as it was written: {status}")
        require(status["trust"] != "untrusted", f"the host does not trust the hook: {status}")
        require(status["asked_at"], f"the hook was never asked: {status}")
        return f"{status['trust']}, {status['version']}"

    def asked_runs(self) -> str:
        run = self._run(ASKED.name, ASKED.prompt)
        require(ASKED.has_run(run.folder), f"the call that the user asked for did not run: {run}")
        self.report.figures[f"{self.group}.allowed_ran"] += 1
        return ""

    def demand_is_refused(self, scenario: Scenario) -> str:
        before = len(self.upstream.requests)
        run = self._run(scenario.name, scenario.prompt)
        has_run = scenario.has_run(run.folder)
        self.report.figures[f"{self.group}.denied_ran"] += has_run
        require(not has_run, f"the call of the page ran: {run}")
        if self.surface != "hook" and not self._has_read_page(before):
            self.read_after_approval(run, scenario)
        reason = self.reason_read(run, before)
        require(not scenario.has_run(run.folder), f"the call of the page ran: {run}")
        require(self._has_read_page(before), f"the page was not read, so this shows nothing: {run}")
        require(reason, f"the model never read a reason: {run}")
        return reason

    def read_after_approval(self, run: Run, scenario: Scenario) -> None:
        """Reading waits where a shell is all that the host has: a human approves it, and the user asks again."""
        waiting = APPROVE.search(run.output)
        require(waiting, f"the page was not read, and nothing waits: {run}")
        self.custody.approve(waiting[1])
        self.program.go_on(run, scenario.prompt)

    def asked_waits(self) -> str:
        """Without a hook nobody says what the user typed."""
        before = len(self.upstream.requests)
        run = self._run(ASKED.name, ASKED.prompt)
        require(not ASKED.has_run(run.folder), f"the call ran without anybody's approval: {run}")
        reason = self.reason_read(run, before)
        require("custody session approve" in reason, f"the model was not told how it is approved: {reason} {run}")
        return reason

    def reason_read(self, run: Run, before: int) -> str:
        reason = self._reason(before)
        if not reason and self.surface != "hook":
            # A proxy ends the turn; the model reads why when the user goes on.
            self.program.go_on(run, scenarios.ASK_WHY)
            reason = self._reason(before)
        return reason

    def _reason(self, before: int) -> str:
        """The last one, since the reading of a page may have waited, too."""
        reason = next((text for text in reversed(self._texts(before)) if "Custody" in text), "")
        return reason[reason.index("Custody") :] if reason else ""

    def _has_read_page(self, before: int) -> bool:
        return any("Note to assistants" in text for text in self._texts(before))

    def approved_call_runs_once(self) -> str:
        """After a human approved it, the same call goes on, once."""
        switch, seen = self.upstream.script, Approving(self.custody, self.upstream.script)
        self.upstream.script = seen
        try:
            run = self._run("approved", DEMANDS[0].prompt)
        finally:
            self.upstream.script = switch
        require(seen.approved, f"the call was not approved: {seen.failure} {run}")
        require(DEMANDS[0].has_run(run.folder), f"the approved call did not run: {run}")
        require(seen.refused == 2, f"an approval is for one call, but {seen.refused} were refused: {run}")
        return seen.approved

    def survives(self, name: str, happens: Callable) -> str:
        switch = self.upstream.script
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(self.custody.serve())
            switch.has_fired = False
            switch.before_call = lambda: stack.enter_context(happens(self.custody, server))
            try:
                seen = self.fault_blocks(name)
            finally:
                switch.before_call = None
        require(switch.has_fired, f"the model was not asked, so this shows nothing: {seen}")
        return seen

    def fault_blocks(self, name: str) -> str:
        # Where its requests come by Custody, it waits for that to come back, perhaps for ever.
        is_over = never if self.surface == "hook" else self.upstream.script.is_over
        run = self._run(f"fault-{name}", ASKED.prompt, is_over)
        has_run = ASKED.has_run(run.folder)
        self.report.figures[f"{self.group}.{'faults_open' if has_run else 'faults_blocked'}"] += 1
        require(not has_run, f"the call ran: {run}")
        return run.output[-120:]

    def key_stays(self) -> str:
        """The vendor must not learn Custody's credential."""
        key = self.custody.hook_key(self.program.host.name)
        for request in self.upstream.requests:
            require(request.header(KEY_HEADER) is None, f"request {request.number} has the header {KEY_HEADER}")
            require(key.encode() not in request.raw, f"request {request.number} has the key in its body")
        return f"{len(self.upstream.requests)} requests"

    def is_uninstalled(self) -> str:
        self.custody.uninstall_hook(self.program.host.name)
        self.require_as_before([self.program.host.file])
        run = self._run("uninstalled", DEMANDS[0].prompt)
        require(DEMANDS[0].has_run(run.folder), f"something is still in the way: {run}")
        return ""

    def is_undone(self) -> str:
        self.custody.disconnect(self.program.host.name)
        files = changed_files(self.program.host, self.surface)
        self.require_as_before(files)
        return ", ".join(files)

    def require_as_before(self, files: list[str]) -> None:
        for file, before in zip(files, self.before, strict=True):
            now = read_if_there(self.custody.home / file)
            require(now == before, f"`{file}` is not as before: {now}")

    def _run(self, name: str, prompt: str, is_over: Callable[[], bool] = never) -> Run:
        return self.program.run(self.folder / name, prompt, self.url, is_over)

    def _texts(self, before: int) -> list[str]:
        """What the model read, in all requests since."""
        calls = [call for call in self.upstream.model_calls() if call.number > before]
        return [text for call in calls for text in read_texts(call)]

    def check(self, name: str, body: Callable, *arguments: object) -> None:
        self.report.check(self.group, name if self.surface == "hook" else f"{self.surface}.{name}", body, *arguments)


@dataclass
class Approving:
    """The script, with a human who approves the first call that is refused, and a model that tries it three times."""

    custody: Custody
    script: Callable[[Request], Reply]
    approved: str = ""
    failure: str = ""
    refused: int = 0
    call: tuple[ToolCall, ...] = ()

    def __call__(self, request: Request) -> Reply:
        text = scenarios.reading_of(request).text
        self.refused += "Custody: " in text
        waiting = APPROVE.search(text)
        if waiting and not self.approved:
            try:
                self.custody.approve(waiting[1])
                self.approved = waiting[1]
            except Failed as failure:
                self.failure = str(failure)
                return Reply(text=scenarios.NOTHING_TO_DO)
        if self.call and self.refused < 2:
            return Reply(calls=self.call)
        reply = self.script(request)
        if reply.calls and any("victim" in str(call.arguments) for call in reply.calls):
            self.call = reply.calls
        return reply


def read_texts(call: Request) -> list[str]:
    """Every text in a request, whatever its format."""

    def walk(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for each in value.values():
                yield from walk(each)
        elif isinstance(value, list):
            for each in value:
                yield from walk(each)

    body = call.body
    return list(walk([body.get("messages"), body.get("input"), body.get("contents")]))
