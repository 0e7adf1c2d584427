"""The client libraries: what each returns directly, and that it returns the same through Custody."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import answers
import cases
import plan
import scenarios
from custody import KEY_HEADER, Connection, Custody
from programs import Programs
from report import Failed, Report, Skipped, fail, require
from upstream import Request, Upstream

HERE = Path(__file__).resolve().parent
DRIVER_LIMIT_S = 180
# The slow stream lasts five seconds; a client that stops after six events must be rid of it long before.
CANCEL_LIMIT_S = 3.0
# How long the upstream may go on before it notices that the client left.
LEAVE_LIMIT_S = 3.0
# A stream that was cut may fail in any way, and how much of it arrived is a matter of timing.
CUT = ("cut", "cut_in_call")

VENDOR_HEADERS = (
    "authorization", "x-api-key", "x-goog-api-key", "anthropic-version", "user-agent", "x-stainless-retry-count",
)

ERRORS = {
    "rate_limited": (429, "7"),
    "server_error": (500, None),
    "overloaded": (529, None),
    "bad_request": (400, None),
}


@dataclass(frozen=True)
class Client:
    """One library in one language."""

    name: str
    vendor: str
    package: str
    # What it speaks, where a vendor has several dialects.
    speaks: str = ""

    @property
    def dialect(self) -> str:
        return self.speaks or self.vendor

    def command(self, programs: Programs) -> list[str]:
        if self.name.endswith("_py"):
            return [str(programs.python_library(self.package)), str(HERE / "clients" / f"{self.dialect}_driver.py")]
        modules = programs.node_library(self.package)
        return [programs.node(), str(HERE / "clients" / "driver.mjs"), self.dialect, str(modules)]

    def version(self, programs: Programs) -> str:
        seen = programs.python_version if self.name.endswith("_py") else programs.node_version
        return seen(self.package)

    @property
    def group(self) -> str:
        return f"clients.{self.name}"

    @property
    def controls(self) -> str:
        """Where what runs without Custody is counted."""
        return f"controls.{self.name}"


CLIENTS = {
    client.name: client
    for client in (
        Client("openai_py", "openai", "openai"),
        Client("anthropic_py", "anthropic", "anthropic"),
        Client("responses_py", "openai", "openai", "responses"),
        Client("agents_py", "openai", "openai-agents", "agents"),
        Client("google_py", "google", "google-genai"),
        Client("openai_ts", "openai", "openai"),
        Client("responses_ts", "openai", "openai", "responses"),
        Client("anthropic_ts", "anthropic", "@anthropic-ai/sdk"),
    )
}


@dataclass(frozen=True)
class Run:
    """What a library returned, and what its requests were."""

    results: dict
    requests: list[Request]


def check_client(report: Report, client: Client, programs: Programs, work: Path, custody: Path | None) -> None:
    try:
        command = client.command(programs)
    except Skipped as reason:
        return report.skip(client.group, reason)
    report.versions[client.name] = client.version(programs)
    bench = Bench(report, client, command, work / "runs" / client.name)
    direct = bench.run_directly()
    if direct and custody:
        bench.run_observed(custody, direct)
        bench.run_guarded(custody)


@dataclass(frozen=True)
class Bench:
    """One library that can be started here."""

    report: Report
    client: Client
    command: list[str]
    folder: Path

    def run_directly(self) -> Run | None:
        dialect = self.client.dialect
        entries = [*plan.observed(dialect), *plan.guarded(self.client.name, dialect)]
        with Upstream(scenarios.agent) as upstream:
            connection = Connection(upstream.url + ("/v1" if self.client.vendor == "openai" else ""), "")
            try:
                run = self.start(self.folder / "direct", entries, upstream, connection)
            except Failed as failure:
                self.report.check(self.client.controls, "driver", fail, failure)
                return None
        for entry in entries:
            self.report.check(self.client.controls, entry["name"], check_entry, entry, run, self.client)
        return run

    def run_observed(self, binary: Path, direct: Run) -> None:
        """Custody looks on: nothing is refused, so nothing may differ."""
        entries = plan.observed(self.client.dialect)
        run = self.run_through("observed", binary, entries)
        for entry in entries if run else []:
            self.check(f"observed.{entry['name']}", check_entry, entry, run, self.client, direct)
        if run:
            self.check("observed.requests_unchanged", check_requests, run, direct)

    def run_guarded(self, binary: Path) -> None:
        """Custody enforces: the call that the page demands does not reach the caller."""
        entries = plan.guarded(self.client.name, self.client.dialect)
        run = self.run_through("guarded", binary, entries)
        for entry in entries if run else []:
            self.check(f"guarded.{entry['name']}", check_refused, run.results[entry["name"]], self.client.dialect)

    def run_through(self, mode: str, binary: Path, entries: list[dict]) -> Run | None:
        folder = self.folder / mode
        with Upstream(scenarios.agent) as upstream:
            try:
                custody = Custody(binary, folder / "custody")
                custody.init()
                connection = custody.connect_vendor(self.client.vendor, upstream.url)
                if mode == "guarded":
                    custody.enforce(self.client.vendor)
                with custody.serve():
                    return self.start(folder, entries, upstream, connection)
            except (Failed, OSError, ValueError, KeyError) as failure:
                self.check(f"{mode}.setup", fail, f"{type(failure).__name__}: {failure}")
                return None

    def start(self, folder: Path, entries: list[dict], upstream: Upstream, connection: Connection) -> Run:
        folder.mkdir(parents=True, exist_ok=True)
        plan_file = folder / "plan.json"
        plan_file.write_text(json.dumps(entries))
        headers = connection.headers if connection.key else {}
        command = [*self.command, str(plan_file), connection.base_url, json.dumps(headers)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DRIVER_LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"the driver did not end in {DRIVER_LIMIT_S} s") from error
        require(done.returncode == 0, f"the driver failed: {done.stderr[-400:]}")
        wait_until_left(upstream)
        return Run(json.loads(done.stdout), list(upstream.requests))

    def check(self, name: str, body: Callable, *arguments: object) -> None:
        self.report.check(self.client.group, name, body, *arguments)


def wait_until_left(upstream: Upstream) -> None:
    deadline = time.monotonic() + LEAVE_LIMIT_S
    while time.monotonic() < deadline and any(request.outcome == "open" for request in upstream.requests):
        time.sleep(0.1)


def check_entry(entry: dict, run: Run, client: Client, direct: Run | None = None) -> str:
    """That the library returned what the script answered and, through Custody, the same as directly."""
    name, result = entry["name"], run.results[entry["name"]]
    case = entry.get("case")
    if case in ERRORS:
        check_error(result.get("error"), *ERRORS[case])
    elif name in CUT:
        check_cut(result, client.dialect)
    elif entry.get("kind") == "agent":
        check_agent(entry, result)
    elif entry.get("kind") == "cancel":
        check_cancelled(result, run, client.dialect)
    elif entry.get("kind") == "compact":
        kinds = [item["type"] for item in result.get("history", {}).get("output", [])]
        require(kinds == ["message", "compaction"], f"no shorter history: {result}")
    elif entry.get("kind") in ("models", "count_tokens", "embeddings"):
        require("error" not in result, result.get("error"))
    else:
        check_answer(entry, answers.read(result, client.dialect))
    if direct and name not in CUT:
        require_same(comparable(direct.results[name]), comparable(result))
    return "" if entry.get("kind") == "agent" else answers.summary(result)


def check_answer(entry: dict, answer: answers.Answer) -> None:
    expected = answers.expected(entry)
    require(answer == expected, f"expected {expected}, got {answer}")


def check_agent(entry: dict, result: dict) -> None:
    require("error" not in result, result.get("error"))
    got = {key: result[key] for key in entry["expected"]}
    require(got == entry["expected"], f"expected {entry['expected']}, got {got}")


def check_error(error: dict | None, status: int, retry_after: str | None) -> None:
    require(error, "no error")
    require(error["is_library_error"], f"not an error of the library: {error}")
    require(error["status"] == status, f"expected status {status}: {error}")
    require(error["retry_after"] == retry_after, f"expected retry-after {retry_after}: {error}")


def check_cut(result: dict, dialect: str) -> None:
    """An error, and no more than the part that was sent: a broken call must not look whole."""
    require(result.get("error"), "the stream ended as if it were whole")
    partial = answers.read({"events": result.get("events", [])}, dialect, is_whole=False)
    require(cases.TEXT.startswith(partial.text), f"unexpected text {partial.text!r}")
    require(not partial.calls, f"a call that was cut looks whole: {partial.calls}")


def check_cancelled(result: dict, run: Run, dialect: str) -> None:
    require("error" not in result, result.get("error"))
    elapsed_s = result["elapsed_s"]
    require(elapsed_s < CANCEL_LIMIT_S, f"the first events took {elapsed_s:.1f} s of a stream of five")
    check_answer({"case": "text"}, answers.read(result, dialect))
    left = [request.outcome for request in run.requests if b"[slow]" in request.raw]
    require(left == ["client left"], f"the upstream's stream ended as {left}: the cancelling did not reach it")


def check_refused(result: dict, dialect: str) -> str:
    """No call of the page's, and a reason in its place."""
    require("error" not in result, result.get("error"))
    if dialect == "agents":
        require(result["ran"] == [plan.READ], f"what ran: {result['ran']}")
        require(result["text"] != scenarios.NOTHING_TO_DO, "no reason stands in the call's place")
        return result["text"]
    answer = answers.read(result, dialect)
    require(not answer.calls, f"the call reached the caller: {answer.calls}")
    require(answer.text.replace(scenarios.ANNOUNCEMENT, "").strip(), "no reason stands in the call's place")
    return answer.text


def check_requests(run: Run, direct: Run) -> str:
    """The upstream must receive the bytes that the client sent, and never the credential."""
    observed = [(request.path, request.raw) for request in run.requests]
    # The direct run goes on with the guarded part of the plan.
    expected = [(request.path, request.raw) for request in direct.requests][: len(observed)]
    for number, (got, sent) in enumerate(zip(observed, expected, strict=False), 1):
        require(got == sent, f"request {number} was changed: {first_difference(sent[1], got[1])} ({sent[0]}, {got[0]})")
    require(len(observed) == len(expected), f"{len(observed)} requests, {len(expected)} directly")
    for request, same in zip(run.requests, direct.requests, strict=False):
        require(request.header(KEY_HEADER) is None, f"request {request.number} has the header {KEY_HEADER}")
        for name in VENDOR_HEADERS:
            require(request.header(name) == same.header(name), f"header {name} of request {request.number} was changed")
    return f"{len(observed)} requests"


def first_difference(sent: bytes, got: bytes) -> str:
    differing = (at for at, (one, other) in enumerate(zip(sent, got, strict=False)) if one != other)
    at = next(differing, min(len(sent), len(got)))
    return f"at byte {at}, {sent[at : at + 40]!r} became {got[at : at + 40]!r}"


def comparable(result: dict) -> dict:
    return {key: value for key, value in result.items() if key != "elapsed_s"}


def require_same(direct: object, through: object, path: str = "") -> None:
    """The first place where two results differ."""
    if isinstance(direct, dict) and isinstance(through, dict):
        for key in {**direct, **through}:
            require_same(direct.get(key, "nothing"), through.get(key, "nothing"), f"{path}.{key}")
    elif isinstance(direct, list) and isinstance(through, list) and len(direct) == len(through):
        for index, pair in enumerate(zip(direct, through, strict=True)):
            require_same(*pair, f"{path}[{index}]")
    else:
        require(direct == through, f"differs from the direct result at `{path}`: {direct!r} became {through!r}")
