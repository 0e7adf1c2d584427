"""The programs under test: installed from the public registries into the work folder, unless they are there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from report import Skipped

INSTALL_LIMIT_S = 600
# npm chooses by the Node version of its own package.json; the host brings its own runtime, so take the newest.
CLAUDE = "@anthropic-ai/claude-code@latest"


# The other hosts: their program, and the package that has it.
HOSTS = {
    "codex": "@openai/codex@latest",
    "gemini": "@google/gemini-cli@latest",
    "copilot": "@github/copilot@latest",
}


class Programs:
    def __init__(self, work: Path):
        self.modules = work / "node"
        self.venv = work / "venv"

    def claude(self) -> Path:
        binary = self.modules / "node_modules" / ".bin" / "claude"
        if not binary.exists():
            self._npm(CLAUDE)
        return present(binary)

    def host(self, name: str) -> Path:
        binary = self.modules / "node_modules" / ".bin" / name
        if not binary.exists():
            self._npm(HOSTS[name])
        return present(binary)

    def python_library(self, name: str) -> Path:
        """The Python interpreter that has the library."""
        python = self.venv / "bin" / "python"
        if not python.exists():
            run([sys.executable, "-m", "venv", self.venv])
        if not self.python_version(name):
            run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name])
        return present(python)

    def node(self) -> str:
        found = shutil.which("node")
        if not found:
            raise Skipped("`node` is not on this machine")
        return found

    def node_library(self, package: str) -> Path:
        """The folder that holds `node_modules`."""
        if not self._manifest(package).exists():
            self._npm(package)
        present(self._manifest(package))
        return self.modules

    def python_version(self, name: str) -> str | None:
        code = f"import importlib.metadata; print(importlib.metadata.version({name!r}))"
        done = subprocess.run([self.venv / "bin" / "python", "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or None

    def node_version(self, package: str) -> str:
        return json.loads(self._manifest(package).read_text())["version"]

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
