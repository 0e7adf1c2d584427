"""Drives the `custody` program: everything that is assumed of its commands stands in this file.

Passphrases are typed on the controlling terminal and nowhere else, so each command gets a pseudo-terminal of its
own, and its prompts are answered by their text.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import secrets
import select
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from report import Failed, require

COMMAND_LIMIT_S = 60
READY_LIMIT_S = 30
STOP_LIMIT_S = 15
# Below those that systems give to outgoing connections.
PORTS = range(20_000, 32_000)
PORT_ATTEMPTS = 100

# The header that carries the credential of a connection.
KEY_HEADER = "x-custody-key"
SURFACES = ("both", "proxy", "hook")
NEW_PASSPHRASE = re.compile(r"New passphrase for \S+: $")
SAME_AGAIN = re.compile(r"The same again: $")
PASSPHRASE = re.compile(r"Passphrase of \S+: $")
CONFIRMATION = re.compile(r"\[y/N\] $")
# What Claude Code tells the model when a hook could not be asked. That is no reason of Custody's.
HOOK_FAILURE = "blocking because onFailure"
HOOK_PREFIX = re.compile(r"^PreToolUse:\w+ hook error:\s*")


@dataclass(frozen=True)
class Connection:
    """How a client reaches Custody."""

    base_url: str
    key: str
    name: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {KEY_HEADER: self.key}


class Custody:
    """One store with its own home folder."""

    def __init__(self, binary: Path, folder: Path, host: Path | None = None):
        self.binary = binary.resolve()
        # `connect` may ask the host's program for its version.
        self._path = os.pathsep.join([*([str(host.parent)] if host else []), os.environ["PATH"]])
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        # The address on which clients expect Custody: `connect` chose it.
        self.address = ""
        self._passphrase = secrets.token_urlsafe(30)

    def init(self) -> None:
        self.run("init")

    def connect_claude_code(self, upstream: str, surface: str, *options: str) -> None:
        """Edits the settings in this home folder."""
        ways = ["--upstream", upstream, "--surface", surface, "--listen", free_address(), *options]
        self.run("connect", "claude-code", "--apply", "--no-wait", *ways)
        self.address = address_in(self.claude_settings())

    def install_hook(self, host: str, *options: str) -> None:
        """Installs the hook of a host in this home folder. The address is a free port of this run."""
        self.address = free_address()
        self.run("hook", "install", host, "--listen", self.address, "--no-selftest", *options)

    def connect_host(self, host: str, upstream: str, surface: str, *options: str) -> dict[str, str]:
        """Changes the settings of a host in this home folder. Returns what else it needs in its environment."""
        self.address = free_address()
        ways = ["--upstream", upstream, "--listen", self.address, "--surface", surface, *options]
        printed = json.loads(self.run("connect", host, "--apply", "--no-wait", "--json", *ways))
        return printed["environment"] or {}

    def disconnect(self, host: str) -> None:
        self.run("connect", host, "--undo")

    def uninstall_hook(self, host: str) -> None:
        self.run("hook", "uninstall", host)

    def hook_status(self) -> dict:
        return json.loads(self.run("hook", "status", "--json"))

    def selftest(self, host: str) -> str:
        outcome = json.loads(self.run("hook", "selftest", host, "--json"))["selftest"]
        require(outcome == "works", f"the selftest says `{outcome}`")
        return outcome

    def hook_key(self, host: str) -> str:
        return (self.home / "config" / "custody" / "hooks" / f"{host}.key").read_text().strip()

    def connect_vendor(self, vendor: str, upstream: str, *options: str) -> Connection:
        ways = ["--upstream", upstream, "--listen", free_address(), *options]
        printed = json.loads(self.run("connect", vendor, "--no-wait", "--json", *ways))
        self.address = urlsplit(printed["base_url"]).netloc
        return Connection(printed["base_url"], printed["key"], vendor)

    def pin_server(self, name: str, command: list[str]) -> None:
        self.run("mcp", "--server", name, "--pin", "--apply", "--", *command)

    def enforce(self, connection: str) -> None:
        self.run("enforce", connection)

    def approve(self, proposal: str) -> None:
        self.run("session", "approve", proposal)

    def claude_settings(self) -> dict:
        return json.loads((self.home / ".claude" / "settings.json").read_text())

    def claude_key(self) -> str:
        """The credential in the settings: Custody must keep it from the upstream."""
        headers = self.claude_settings().get("env", {}).get("ANTHROPIC_CUSTOM_HEADERS", "")
        match = re.search(rf"{KEY_HEADER}:\s*(\S+)", headers, re.IGNORECASE)
        return match[1] if match else ""

    def environment(self) -> dict[str, str]:
        """The environment of every program that shares this home folder."""
        return {
            "PATH": self._path,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "CUSTODY_STORE": str(self.folder / "store" / "custody.db"),
            "CUSTODY_KEYS": str(self.folder / "keys"),
        }

    @contextlib.contextmanager
    def serve(self) -> Iterator[Server]:
        """Custody on the address that `connect` wrote down."""
        server = Server(self)
        try:
            server.wait_until_ready()
            yield server
        finally:
            server.stop()

    def run(self, *arguments: str) -> str:
        """Runs a command, answers its prompts, and returns its output."""
        answers = {
            NEW_PASSPHRASE: self._passphrase,
            SAME_AGAIN: self._passphrase,
            PASSPHRASE: self._passphrase,
            CONFIRMATION: "y",
        }
        done = run_on_terminal([str(self.binary), *arguments], self.environment(), self.folder, answers)
        title = f"`custody {' '.join(arguments)}`"
        require(done.code == 0, f"{title} ended with {done.code}: {done.terminal} {done.output}")
        return done.output


class Server:
    """A running `custody serve`."""

    def __init__(self, custody: Custody):
        self.address = custody.address
        self.log = custody.folder / "serve.log"
        command = [str(custody.binary), "serve", "--listen", custody.address]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=custody.environment(), cwd=custody.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_LIMIT_S
        while not self._is_healthy():
            self._require_running()
            require(time.monotonic() < deadline, f"`custody serve` was not ready in {READY_LIMIT_S} s: {self._log()}")
            time.sleep(0.1)
        # Another program on the same port could have answered in its place.
        self._require_running()

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait()

    def suspend(self) -> None:
        """It keeps its connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/healthz", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def _require_running(self) -> None:
        code = self.process.poll()
        require(code is None, f"`custody serve` ended with {code}: {self._log()}")

    def _log(self) -> str:
        return self.log.read_text(errors="replace")[-400:]


@dataclass(frozen=True)
class Done:
    """A command that ended: its standard output, and what the terminal showed."""

    code: int
    output: str
    terminal: str


def run_on_terminal(command: list[str], environment: dict, folder: Path, answers: dict[re.Pattern, str]) -> Done:
    """Runs a command with a controlling terminal, and answers the prompts it shows there."""
    reading, writing = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        # Standard output is a pipe, so that what is printed is not mixed with the prompts.
        os.dup2(writing, 1)
        os.chdir(folder)
        os.execve(command[0], command, environment)
    os.close(writing)
    try:
        return converse(child, terminal, reading, answers)
    finally:
        os.close(terminal)
        os.close(reading)


def converse(child: int, terminal: int, reading: int, answers: dict[re.Pattern, str]) -> Done:
    deadline = time.monotonic() + COMMAND_LIMIT_S
    received = {terminal: b"", reading: b""}
    # How far the terminal's text has been answered.
    answered = 0
    is_open = [terminal, reading]
    while is_open and time.monotonic() < deadline:
        for ready in select.select(is_open, [], [], 0.2)[0]:
            data = read_some(ready)
            received[ready] += data
            if not data:
                is_open.remove(ready)
        shown = received[terminal][answered:].decode(errors="replace")
        answer = next((text for prompt, text in answers.items() if prompt.search(shown)), None)
        if answer is not None:
            os.write(terminal, answer.encode() + b"\n")
            answered = len(received[terminal])
    if is_open:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Done(code, received[reading].decode(), received[terminal].decode(errors="replace"))


def read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        # A terminal whose other side is closed gives an error instead of an end.
        return b""


def free_address() -> str:
    """An address of this machine that nothing listens on, so that runs at once do not meet.

    `custody serve` takes it only later, so it is none that the system gives to others in between.
    """
    for _ in range(PORT_ATTEMPTS):
        port = secrets.choice(PORTS)
        with contextlib.suppress(OSError), contextlib.closing(socket.create_server(("127.0.0.1", port))):
            return f"127.0.0.1:{port}"
    raise Failed("no port of this machine is free")


def address_in(settings: dict) -> str:
    """Host and port of Custody in Claude Code's settings: its base URL, else the URL of a hook."""
    base_url = settings.get("env", {}).get("ANTHROPIC_BASE_URL")
    urls = [base_url] if base_url else re.findall(r'"url": "([^"]+)"', json.dumps(settings.get("hooks", {})))
    require(urls, "`custody connect claude-code` wrote neither a base URL nor an http hook")
    return urlsplit(urls[0]).netloc


def refusal_reason(tool_result: str) -> str:
    """The reason in a refused call's result, or nothing if the host itself refused it."""
    if HOOK_FAILURE in tool_result:
        return ""
    return HOOK_PREFIX.sub("", tool_result).strip()
