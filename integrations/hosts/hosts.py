"""Codex, Gemini CLI and Copilot CLI, and how each is run headless against the scripted model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import scenarios

# More than the hook's own limit, which is two fifths of 30 seconds, for each of the few events of a run.
LIMIT_S = 120


@dataclass(frozen=True)
class HookedHost:
    """How a host is run, headless, against the scripted model.

    Without the model's URL its requests go where its own settings and its environment send them.
    """

    name: str
    # The arguments, for a prompt and the model's URL.
    arguments: Callable[[str, str], list[str]]
    # Those with which it goes on with its last conversation.
    going_on: Callable[[str], list[str]]
    # Variables of its environment, for the model's URL.
    variables: Callable[[str], dict[str, str]]
    # The file with the hook, in the home folder.
    file: str
    # The file that sends its requests to Custody, if there is one.
    proxied_file: str = ""
    # Settings that must be there, by their path in the home folder.
    settings: dict[str, str] = field(default_factory=dict)
    # Options of `hook install` and `connect` with which its hooks run.
    install: tuple[str, ...] = ()
    # Whether the host asks its user itself, whom a headless run does not have.
    asks: bool = False

    @property
    def group(self) -> str:
        return f"hosts.{self.name}"


CODEX_FLAGS = ["--skip-git-repo-check", "--json"]


def codex_options(url: str) -> list[str]:
    options = {"model": "gpt-5", "approval_policy": "never", "sandbox_mode": "danger-full-access"}
    if url:
        provider = {"name": "scripted", "base_url": f"{url}/v1", "wire_api": "responses", "env_key": "CODEX_API_KEY"}
        options |= {f"model_providers.scripted.{key}": value for key, value in provider.items()}
        options["model_provider"] = "scripted"
    return [word for key, value in options.items() for word in ("-c", f"{key}={json.dumps(value)}")]


def gemini_variables(url: str) -> dict[str, str]:
    return {
        "GEMINI_API_KEY": "dummy",
        **({"GOOGLE_GEMINI_BASE_URL": url} if url else {}),
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_BROWSER": "1",
    }


def copilot_variables(url: str) -> dict[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        **({"COPILOT_PROVIDER_BASE_URL": f"{url}/v1"} if url else {}),
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_PROVIDER_WIRE_API": "completions",
        "COPILOT_MODEL": "gpt-5",
    }


CODEX_SETTINGS = '# The user\'s own.\nmodel_verbosity = "low" # less\n\n[tui]\nnotifications = false'
GEMINI_SETTINGS = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
GEMINI_FLAGS = ["-m", "gemini-2.5-flash", "--yolo"]
HOSTS = {
    "codex": HookedHost(
        "codex",
        lambda prompt, url: ["exec", *CODEX_FLAGS, *codex_options(url), prompt],
        lambda prompt: ["exec", "resume", "--last", *CODEX_FLAGS, *codex_options(""), prompt],
        lambda _: {"CODEX_API_KEY": "dummy"},
        ".codex/hooks.json",
        ".codex/config.toml",
        {".codex/config.toml": CODEX_SETTINGS},
        install=("--trust",),
    ),
    "gemini": HookedHost(
        "gemini",
        lambda prompt, _: [*GEMINI_FLAGS, "-p", prompt],
        lambda prompt: [*GEMINI_FLAGS, "--resume", "latest", "-p", prompt],
        gemini_variables,
        ".gemini/settings.json",
        ".gemini/.env",
        {".gemini/settings.json": json.dumps(GEMINI_SETTINGS)},
    ),
    "copilot": HookedHost(
        "copilot",
        lambda prompt, _: ["--allow-all-tools", "-p", prompt],
        lambda prompt: ["--allow-all-tools", "--continue", "-p", prompt],
        copilot_variables,
        ".copilot/hooks/custody.json",
        asks=True,
    ),
}


@dataclass
class Run:
    """What one run of a host left behind."""

    folder: Path
    output: str = ""

    def __str__(self) -> str:
        return self.output[-300:]


def never() -> bool:
    return False


@dataclass(frozen=True)
class Program:
    """A host with the environment of one user."""

    host: HookedHost
    binary: Path
    environment: dict[str, str]

    def run(self, folder: Path, prompt: str, url: str = "", is_over: Callable[[], bool] = never) -> Run:
        work = folder / "work"
        work.mkdir(parents=True)
        for name, text in scenarios.PAGES.items():
            (work / name).write_text(text)
        return self._start(Run(work), self.host.arguments(prompt, url), url, is_over)

    def go_on(self, run: Run, prompt: str) -> Run:
        """Another prompt in the conversation of that run."""
        return self._start(run, self.host.going_on(prompt), "", never)

    def _start(self, run: Run, arguments: list[str], url: str, is_over: Callable[[], bool]) -> Run:
        command = [str(self.binary), *arguments]
        environment = {**self.environment, **self.host.variables(url)}
        # A group of its own, so that nothing of it outlives its limit.
        process = subprocess.Popen(
            command, cwd=run.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                run.output = process.communicate(timeout=1)[0]
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline and not is_over():
                    continue
                os.killpg(process.pid, signal.SIGKILL)
                run.output = process.communicate()[0] + "\nwas still running"
                break
        return run


def version(binary: Path, folder: Path) -> str:
    home = folder / "version"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "COPILOT_AUTO_UPDATE": "false"}
    done = subprocess.run([binary, "--version"], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else "unknown"


def write_settings(host: HookedHost, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for name, text in host.settings.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
