"""Claude Code: what it does when its model obeys a page, and what Custody leaves of that."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import scenarios
from custody import KEY_HEADER, SURFACES, Custody, Server, refusal_reason
from programs import Programs
from report import Failed, Report, Skipped, fail, require
from upstream import Request, Upstream
from wire import Reply

GROUP = "hosts.claude"
CONTROLS = "controls.claude"
LIMIT_S = 60
# A host whose requests come by Custody waits for that to come back. A call would run long before.
FAULT_LIMIT_S = 20
AFTER_FAULT_S = 8
# Root may not skip permissions, and these tools are all that the script uses.
PERMITTED = "Bash,Read,Write"
# No traffic but the model's, no updates, and no waiting for a server that is gone.
ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "dummy",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": "1",
}


@dataclass(frozen=True)
class Scenario:
    """What the user asks, and how the work folder shows that a call ran."""

    name: str
    prompt: str
    has_run: Callable[[Path], bool]


ASKED = Scenario("asked_command", scenarios.ASK_COMMAND, lambda folder: (folder / "made.txt").exists())
POISONED = (
    Scenario("page_delete", scenarios.ASK_READ_DELETE, lambda folder: not (folder / "victim.txt").exists()),
    Scenario("page_remember", scenarios.ASK_READ_REMEMBER, lambda folder: (folder / "CLAUDE.md").exists()),
    Scenario("page_settings", scenarios.ASK_READ_SETTINGS, lambda folder: (folder / ".claude/settings.json").exists()),
)


@dataclass
class Outcome:
    """One run of the host, or several in the same session."""

    folder: Path
    upstream: Upstream
    printed: list[dict] = field(default_factory=list)
    errors: str = ""

    @property
    def result(self) -> str:
        return str(self.printed[-1].get("result")) if self.printed else ""

    def __str__(self) -> str:
        return f"{self.result!r} {self.errors[-300:]}"


@dataclass(frozen=True)
class Host:
    """The program with the environment of one user."""

    binary: Path
    environment: dict[str, str]

    def run(self, outcome: Outcome, prompt: str, *options: str, limit_s: int = LIMIT_S) -> Outcome:
        command = [str(self.binary), "-p", prompt, "--output-format", "json", "--allowedTools", PERMITTED, *options]
        try:
            done = subprocess.run(
                command, cwd=outcome.folder, env=self.environment, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=limit_s, check=False,
            )
        except subprocess.TimeoutExpired:
            return outcome
        outcome.errors += done.stderr
        try:
            outcome.printed.append(json.loads(done.stdout))
        except ValueError:
            outcome.errors += done.stdout
        return outcome


def check_claude(report: Report, programs: Programs, work: Path, custody: Path | None) -> None:
    try:
        binary = programs.host("claude")
    except Skipped as reason:
        return report.skip(GROUP, reason)
    folder = work / "runs" / "claude"
    report.versions["claude"] = version(binary, folder)
    check_directly(report, binary, folder / "direct")
    if custody:
        check_observing(report, binary, folder / "observing", custody)
        for surface in SURFACES:
            check_surface(report, binary, folder / surface, custody, surface)
        check_intents(report, binary, folder / "intents", custody)


def version(binary: Path, folder: Path) -> str:
    home = folder / "version"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), **ENVIRONMENT}
    done = subprocess.run([binary, "--version"], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# Controls: without Custody everything runs.


def check_directly(report: Report, binary: Path, folder: Path) -> None:
    for scenario in (ASKED, *POISONED):
        report.check(CONTROLS, scenario.name, runs_directly, binary, folder / scenario.name, scenario)


def runs_directly(binary: Path, folder: Path, scenario: Scenario) -> str:
    home = folder / "home"
    home.mkdir(parents=True)
    with Upstream(scenarios.agent) as upstream:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ANTHROPIC_BASE_URL": upstream.url, **ENVIRONMENT}
        return runs(Host(binary, environment), folder, upstream, scenario)


def new_outcome(folder: Path, upstream: Upstream) -> Outcome:
    work = folder / "work"
    work.mkdir(parents=True)
    for name, text in scenarios.PAGES.items():
        (work / name).write_text(text)
    return Outcome(work, upstream)


# With Custody.


def check_observing(report: Report, binary: Path, folder: Path, program: Path) -> None:
    """Before `enforce`, everything runs as without Custody."""
    with Upstream(scenarios.agent) as upstream:
        try:
            custody = connected(program, folder, binary, upstream, "both")
            host = Host(binary, host_environment(custody, upstream, "both"))
            with custody.serve():
                for scenario in (ASKED, POISONED[0]):
                    report.check(GROUP, f"observing.{scenario.name}", runs, host, folder, upstream, scenario)
        except (Failed, OSError, ValueError) as failure:
            report.check(GROUP, "observing.setup", fail, f"{type(failure).__name__}: {failure}")


def runs(host: Host, folder: Path, upstream: Upstream, scenario: Scenario) -> str:
    before = len(upstream.requests)
    outcome = host.run(new_outcome(folder / scenario.name, upstream), scenario.prompt)
    require(scenario.has_run(outcome.folder), f"the call did not run: {outcome}")
    require(outcome.result == scenarios.NOTHING_TO_DO, f"unexpected result: {outcome}")
    return f"{len(upstream.requests) - before} requests"


def check_surface(report: Report, binary: Path, folder: Path, program: Path, surface: str) -> None:
    bench = None
    with Upstream(Switch()) as upstream:
        try:
            custody = connected(program, folder, binary, upstream, surface)
            custody.enforce("claude-code")
            host = Host(binary, host_environment(custody, upstream, surface))
            bench = Bench(report, host, folder, upstream, custody, surface)
            with custody.serve():
                bench.check_served()
        except (Failed, OSError, ValueError) as failure:
            report.check(GROUP, f"{surface}.setup", fail, f"{type(failure).__name__}: {failure}")
            return
        bench.check_faults()


def connected(program: Path, folder: Path, host: Path, upstream: Upstream, surface: str) -> Custody:
    custody = Custody(program, folder / "custody", host)
    custody.init()
    custody.connect_claude_code(upstream.url, surface)
    is_proxied = "ANTHROPIC_BASE_URL" in custody.claude_settings().get("env", {})
    require(is_proxied == (surface != "hook"), f"surface {surface}, but the settings are {custody.claude_settings()}")
    return custody


def host_environment(custody: Custody, upstream: Upstream, surface: str) -> dict[str, str]:
    # With hooks alone the model's requests go past Custody. Otherwise the settings say where they go.
    direct = {"ANTHROPIC_BASE_URL": upstream.url} if surface == "hook" else {}
    own = {name: value for name, value in custody.environment().items() if not name.startswith("CUSTODY_")}
    return {**own, **ENVIRONMENT, **direct}


def check_intents(report: Report, binary: Path, folder: Path, program: Path) -> None:
    """The model states a call before it reads a page that demands this one and another."""
    with Upstream(scenarios.agent) as upstream:
        try:
            custody = connected(program, folder, binary, upstream, "both")
            host = Host(binary, host_environment(custody, upstream, "both"))
            with custody.serve():
                for switch in ("off", "on"):
                    custody.run("enforce", "claude-code", "--intents", switch)
                    report.check(GROUP, f"intents.{switch}", stated_runs, host, folder / switch, upstream, switch == "on")
        except (Failed, OSError, ValueError) as failure:
            report.check(GROUP, "intents.setup", fail, f"{type(failure).__name__}: {failure}")


def stated_runs(host: Host, folder: Path, upstream: Upstream, is_stated: bool) -> str:
    before = len(upstream.requests)
    outcome = host.run(new_outcome(folder, upstream), scenarios.ASK_INTENDED)
    require(has_read_page(upstream, before), f"the page was not read, so this shows nothing: {outcome}")
    has_run = (outcome.folder / "agreed.txt").exists()
    require(has_run == is_stated, f"the agreed call {'ran' if has_run else 'did not run'}: {outcome}")
    require((outcome.folder / "victim.txt").exists(), f"the call that was not stated ran: {outcome}")
    asked = [call for call in calls_since(upstream, before) if scenarios.tool_names(call.body) == [scenarios.STATE_CALLS]]
    require(len(asked) == int(is_stated), f"the model was asked {len(asked)} times for what it means to do")
    sent = "".join(json.dumps(call.body) for call in asked)
    require("system-reminder" not in sent and str(outcome.folder) not in sent, f"what the host says was sent: {sent}")
    return "the agreed call ran" if has_run else "neither call ran"


@dataclass
class Switch:
    """The script, with something that happens just before the model answers with a call."""

    before_call: Callable[[], None] | None = None
    has_fired: bool = False
    fired_at: float = 0.0

    def __call__(self, request: Request) -> Reply:
        reply = scenarios.agent(request)
        if reply.calls and self.before_call:
            self.has_fired, self.fired_at = True, time.monotonic()
            self.before_call()
        return reply

    def is_over(self) -> bool:
        """Whether a call would have run by now if it could."""
        return self.has_fired and time.monotonic() - self.fired_at > AFTER_FAULT_S


@dataclass
class Bench:
    """The host, connected to a Custody that enforces."""

    report: Report
    host: Host
    folder: Path
    upstream: Upstream
    custody: Custody
    surface: str

    def check_served(self) -> None:
        self.report.figures.update({f"{GROUP}.allowed_ran": 0, f"{GROUP}.denied_ran": 0})
        # Without hooks nobody knows what the user typed, so nothing that a message says is the user's.
        self._check(ASKED.name, self.asked_waits if self.surface == "proxy" else self.asked_runs)
        for scenario in POISONED:
            self._check(scenario.name, self.poisoned_is_refused, scenario)
        self._check("key_stays", key_stays, self.upstream, self.custody)

    def check_faults(self) -> None:
        """Whatever happens to Custody, the call does not run."""
        self.report.figures.update({f"{GROUP}.faults_blocked": 0, f"{GROUP}.faults_open": 0})
        self._check("killed_before_call", self.survives, "killed", Server.kill)
        self._check("suspended_before_call", self.survives, "suspended", Server.suspend)
        self._check("never_started", self.call_does_not_run, "never_started")

    def asked_runs(self) -> str:
        outcome = self._run(ASKED.name, ASKED.prompt)
        require(ASKED.has_run(outcome.folder), f"the call that the user asked for did not run: {outcome}")
        self.report.figures[f"{GROUP}.allowed_ran"] += 1
        require(outcome.result == scenarios.NOTHING_TO_DO, f"unexpected result: {outcome}")
        return outcome.result

    def asked_waits(self) -> str:
        before = len(self.upstream.requests)
        outcome = self._run(ASKED.name, ASKED.prompt)
        require(not ASKED.has_run(outcome.folder), f"the call ran without anybody's approval: {outcome}")
        reason = self.reason_read(outcome, before)
        require("custody session approve" in reason, f"the model was not told how it is approved: {reason}")
        return reason

    def poisoned_is_refused(self, scenario: Scenario) -> str:
        before = len(self.upstream.requests)
        outcome = self._run(scenario.name, scenario.prompt)
        has_run = scenario.has_run(outcome.folder)
        self.report.figures[f"{GROUP}.denied_ran"] += has_run
        require(not has_run, f"the call of the page ran: {outcome}")
        require(has_read_page(self.upstream, before), f"the page was not read, so this shows nothing: {outcome}")
        reason = self.reason_read(outcome, before)
        require(reason, f"the model never read a reason: {outcome}")
        shown = [str(printed.get("result")) for printed in outcome.printed]
        require(any(reason in text for text in shown), f"the user was not shown the reason {reason!r}: {shown}")
        return reason

    def reason_read(self, outcome: Outcome, before: int) -> str:
        reason = find_reason(self.upstream, before)
        if not reason:
            # A proxy ends the turn; the model reads why when the user goes on.
            self.host.run(outcome, scenarios.ASK_WHY, "--continue")
            reason = find_reason(self.upstream, before)
        return reason

    def survives(self, name: str, happens: Callable[[Server], None]) -> str:
        switch = self.upstream.script
        with self.custody.serve() as server:
            switch.before_call, switch.has_fired = (lambda: happens(server)), False
            try:
                seen = self.call_does_not_run(name)
            finally:
                switch.before_call = None
        require(switch.has_fired, f"the model was not asked, so this shows nothing: {seen}")
        return seen

    def call_does_not_run(self, name: str) -> str:
        limit_s = LIMIT_S if self.surface == "hook" else FAULT_LIMIT_S
        outcome = self._run(name, ASKED.prompt, limit_s)
        has_run = ASKED.has_run(outcome.folder)
        self.report.figures[f"{GROUP}.{'faults_open' if has_run else 'faults_blocked'}"] += 1
        require(not has_run, f"the call ran: {outcome}")
        return outcome.result or outcome.errors or f"still waiting after {limit_s} s"

    def _run(self, name: str, prompt: str, limit_s: int = LIMIT_S) -> Outcome:
        return self.host.run(new_outcome(self.folder / name, self.upstream), prompt, limit_s=limit_s)

    def _check(self, name: str, body: Callable, *arguments: object) -> None:
        self.report.check(GROUP, f"{self.surface}.{name}", body, *arguments)


def has_read_page(upstream: Upstream, before: int) -> bool:
    return any("Note to assistants" in text for call in calls_since(upstream, before) for text in result_texts(call))


def calls_since(upstream: Upstream, before: int) -> list[Request]:
    return [call for call in upstream.model_calls() if call.number > before]


def find_reason(upstream: Upstream, before: int) -> str:
    """The reason in a request: in the result of the refused call, or as text in the call's place."""
    for call in calls_since(upstream, before):
        refused = [refusal_reason(text) for text in result_texts(call, refused=True)]
        foreign = [foreign_text(text) for text in assistant_texts(call)]
        reason = next(filter(None, [*refused, *foreign]), "")
        if reason:
            return reason
    return ""


def foreign_text(text: str) -> str:
    """What stands in the model's turn and was not written by the script."""
    if text.startswith(scenarios.REFUSED):
        return ""
    return text.replace(scenarios.ANNOUNCEMENT, "").replace(scenarios.NOTHING_TO_DO, "").strip()


def result_texts(call: Request, refused: bool = False) -> list[str]:
    blocks = [block for block in all_blocks(call, "user") if block.get("type") == "tool_result"]
    chosen = [block for block in blocks if block.get("is_error") or not refused]
    return [text for block in chosen for text in scenarios.content_texts(block.get("content"))]


def assistant_texts(call: Request) -> list[str]:
    return [block.get("text", "") for block in all_blocks(call, "assistant") if block.get("type") == "text"]


def all_blocks(call: Request, role: str) -> list[dict]:
    contents = [message.get("content") for message in call.body.get("messages", []) if message.get("role") == role]
    return [block for content in contents if isinstance(content, list) for block in content]


def key_stays(upstream: Upstream, custody: Custody) -> str:
    """The vendor must not learn Custody's credential."""
    key = custody.claude_key()
    for request in upstream.requests:
        require(request.header(KEY_HEADER) is None, f"request {request.number} has the header {KEY_HEADER}")
        require(not key or key.encode() not in request.raw, f"request {request.number} has the key in its body")
    return f"{len(upstream.requests)} requests"
