"""The `custody` program: a store of its own, passphrases typed on a terminal, sessions over JSON Lines."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import subprocess
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

TAMPERED = "tampered with"
"""What every refusal of an altered store says."""


class Tampered(Exception):
    """Custody refused to read, because the store is not the one that it signed."""


class Failed(Exception):
    """Custody did not do what was asked, for another reason."""


class Program:
    """One store and its keys, in two folders below `root`."""

    def __init__(self, root: Path, custody: str) -> None:
        self.root = root
        self.custody = custody

    @property
    def store(self) -> Path:
        """The folder that an attacker holds: the database and whatever SQLite puts beside it."""
        return self.root / "store"

    @property
    def database(self) -> Path:
        return self.store / "custody.db"

    def token(self, name: str) -> Path:
        return self.root / f"{name}.token"

    def found(self, users: dict[str, str]) -> None:
        """Founds the store and registers these users, each in a tenant, with a token for agents."""
        passphrase = secrets.token_hex(16)
        self._typing(["keys", "init"], [passphrase] * 2)
        for name, tenant in users.items():
            own = secrets.token_hex(16)
            arguments = ["principal", "add", name, "--role", "user", "--tenant", tenant]
            self._typing([*arguments, "--token-out", str(self.token(name))], [passphrase, own, own])

    def read(self, key: str) -> Any:
        """Reads an item of the first tenant, as any agent may. The answer that `--json` prints."""
        ran = subprocess.run(self._command(["memory", "get", key, "--json"]), capture_output=True, text=True)
        if ran.returncode != 0:
            raise _refusal(ran.stderr)
        return json.loads(ran.stdout)

    @contextmanager
    def session(self, user: str) -> Iterator[Session]:
        """A session for a user, over `custody session`."""
        command = self._command(["session", "--token-file", str(self.token(user))])
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                yield Session(process)
            finally:
                # What a program that has ended did not read is of no use to it any more.
                with suppress(BrokenPipeError):
                    process.stdin.close()

    def _command(self, arguments: Sequence[str]) -> list[str]:
        folders = ["--store", str(self.database), "--keys", str(self.root / "keys")]
        return [self.custody, *folders, *arguments]

    def _typing(self, arguments: Sequence[str], lines: Sequence[str]) -> str:
        """Runs a command on a terminal of its own, typing the next line at each prompt. Its standard output."""
        master, slave = os.openpty()

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        pipe = subprocess.PIPE
        with subprocess.Popen(
            self._command(arguments),
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            preexec_fn=take_terminal,
        ) as process:
            typist = threading.Thread(target=_answer, args=(master, list(lines)), daemon=True)
            typist.start()
            stdout, stderr = process.communicate()
        os.close(slave)
        typist.join()
        os.close(master)
        if process.returncode != 0:
            raise _refusal(stderr)
        return stdout


class Session:
    """One conversation with `custody session`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._asked = 0
        self._session = self._ask(op="open")["session"]

    def remember(self, key: str, text: str) -> None:
        """Says `text` as the user and stores it for all sessions of the tenant."""
        self._ask(op="observe", session=self._session, kind="message", channel="user", text=text)
        write = {"key": key, "text": text, "shared": True}
        decision = self._ask(op="propose", session=self._session, write=write)
        if decision["decision"] != "allow":
            raise Failed(f"the write of `{key}` was not allowed: {decision}")

    def _ask(self, **request: Any) -> dict[str, Any]:
        self._asked += 1
        try:
            self._process.stdin.write(json.dumps({"id": self._asked, **request}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise _refusal(self._process.stderr.read()) from None
        line = self._process.stdout.readline()
        if not line:
            raise _refusal(self._process.stderr.read())
        answer = json.loads(line)
        if answer.get("id") != self._asked:
            raise Failed(f"an answer to another request: {line.strip()}")
        if "error" in answer:
            raise _refusal(answer["error"]["message"])
        return answer


def _refusal(message: str) -> Exception:
    """A refusal for being tampered with is told from any other failure by what it says."""
    message = " ".join(message.split())
    return (Tampered if TAMPERED in message else Failed)(message or "custody ended without a word")


def _answer(master: int, lines: list[str]) -> None:
    shown = b""
    while True:
        try:
            read = os.read(master, 1024)
        except OSError:  # the other end is closed
            return
        if not read:
            return
        shown += read
        if shown.endswith(b": ") and lines:
            shown = b""
            os.write(master, lines.pop(0).encode() + b"\n")
