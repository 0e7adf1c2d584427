"""The programs under test: installed from the public registries into the work folder, unless they are there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from report import Skipped

INSTALL_LIMIT_S = 600

# The versions that were tested, so that a new one of a vendor's turns nothing red here. `--latest` takes the newest.
NODE_PACKAGES = {
    "@anthropic-ai/claude-code": "2.1.331",
    "@openai/codex": "0.169.0",
    "@google/gemini-cli": "0.61.0",
    "@github/copilot": "1.0.102",
    "openai": "6.49.0",
    "@anthropic-ai/sdk": "1.13.0",
    "@modelcontextprotocol/sdk": "1.32.2",
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
}
PYTHON_PACKAGES = {
    "openai": "3.57.0",
    "openai-agents": "0.24.0",
    "anthropic": "2.13.0",
    "claude-agent-sdk": "0.2.189",
    "google-genai": "3.6.1",
    "mcp": "2.3.0",
}

# The hosts: their program, and the package that has it.
HOSTS = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "copilot": "@github/copilot",
}


class Programs:
    def __init__(self, work: Path, takes_latest: bool = False):
        self.work = work
        self.modules = work / "node"
        self.venv = work / "venv"
        self.takes_latest = takes_latest

    def host(self, name: str) -> Path:
        self.node_library(HOSTS[name])
        return present(self.modules / "node_modules" / ".bin" / name)

    def python_library(self, name: str) -> Path:
        """The Python interpreter that has the library."""
        python = self.venv / "bin" / "python"
        with self._alone():
            if not python.exists():
                run([sys.executable, "-m", "venv", self.venv])
            if not self._is_wanted(self.python_version(name), PYTHON_PACKAGES[name]):
                wanted = name if self.takes_latest else f"{name}=={PYTHON_PACKAGES[name]}"
                run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted])
        return present(python)

    def node(self) -> str:
        found = shutil.which("node")
        if not found:
            raise Skipped("`node` is not on this machine")
        return found

    def node_library(self, package: str) -> Path:
        """The folder that holds `node_modules`."""
        with self._alone():
            found = self.node_version(package) if self._manifest(package).exists() else None
            if not self._is_wanted(found, NODE_PACKAGES[package]):
                self._npm(f"{package}@{'latest' if self.takes_latest else NODE_PACKAGES[package]}")
        present(self._manifest(package))
        return self.modules

    def python_version(self, name: str) -> str | None:
        code = f"import importlib.metadata; print(importlib.metadata.version({name!r}))"
        done = subprocess.run([self.venv / "bin" / "python", "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or None

    def node_version(self, package: str) -> str:
        return json.loads(self._manifest(package).read_text())["version"]

    def _is_wanted(self, found: str | None, tested: str) -> bool:
        """Whether nothing has to be installed. What is there already is as new as it was when it came."""
        return found is not None if self.takes_latest else found == tested

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nothing else installs into the same folders meanwhile."""
        self.work.mkdir(parents=True, exist_ok=True)
        with (self.work / "installing").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _manifest(self, package: str) -> Path:
        return self.modules / "node_modules" / package / "package.json"

    def _npm(self, package: str) -> None:
        self.modules.mkdir(parents=True, exist_ok=True)
        run(["npm", "install", "--prefix", self.modules, "--no-audit", "--no-fund", "--loglevel=error", package])


def run(command: list) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    except FileNotFoundError as error:
        raise Skipped(f"`{error.filename}` is not on this machine") from error
    except subprocess.CalledProcessError as error:
        raise Skipped(f"could not be installed: {(error.stderr or error.stdout)[-200:]}") from error
    except subprocess.TimeoutExpired as error:
        raise Skipped(f"could not be installed in {INSTALL_LIMIT_S} seconds") from error


def present(path: Path) -> Path:
    if not path.exists():
        raise Skipped(f"its installation made no `{path.name}`")
    return path
