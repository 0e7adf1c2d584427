"""The coding agents that are guarded by their hooks alone, and how each is run headless against the scripted model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import scenarios
from custody import KEY_HEADER, Connection

# More than the hook's own limit, which is two fifths of 30 seconds, for each of the few events of a run.
LIMIT_S = 120


@dataclass(frozen=True)
class HookedHost:
    """How a host is run, headless, against the scripted model."""

    name: str
    # The arguments, for a prompt and the model's URL.
    arguments: Callable[[str, str], list[str]]
    # Variables of its environment, for the model's URL.
    variables: Callable[[str], dict[str, str]]
    # The file with the hook, in the home folder.
    file: str
    # Settings that must be there, by their path in the home folder.
    settings: dict[str, str] = field(default_factory=dict)
    install: tuple[str, ...] = ()
    # Whether the host asks its user itself, whom a headless run does not have.
    asks: bool = False
    # Variables with which its requests come by Custody, where that reads their format.
    proxied: Callable[[Connection], dict[str, str]] | None = None

    @property
    def group(self) -> str:
        return f"hosts.{self.name}"


def codex_arguments(prompt: str, url: str) -> list[str]:
    provider = {"name": "scripted", "base_url": f"{url}/v1", "wire_api": "responses", "env_key": "SCRIPTED_KEY"}
    options = {f"model_providers.scripted.{key}": value for key, value in provider.items()}
    options |= {"model_provider": "scripted", "model": "gpt-5", "approval_policy": "never"}
    flags = [word for key, value in options.items() for word in ("-c", f"{key}={json.dumps(value)}")]
    return ["exec", "--skip-git-repo-check", "--json", "-s", "danger-full-access", *flags, prompt]


def gemini_variables(url: str) -> dict[str, str]:
    return {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_BROWSER": "1",
    }


def copilot_variables(url: str) -> dict[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_PROVIDER_WIRE_API": "completions",
        "COPILOT_MODEL": "gpt-5",
    }


GEMINI_SETTINGS = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
HOSTS = {
    "codex": HookedHost(
        "codex", codex_arguments, lambda _: {"SCRIPTED_KEY": "dummy"}, ".codex/hooks.json", install=("--trust",)
    ),
    "gemini": HookedHost(
        "gemini",
        lambda prompt, _: ["-m", "gemini-2.5-flash", "--yolo", "-p", prompt],
        gemini_variables,
        ".gemini/settings.json",
        {".gemini/settings.json": json.dumps(GEMINI_SETTINGS)},
    ),
    "copilot": HookedHost(
        "copilot",
        lambda prompt, _: ["--allow-all-tools", "-p", prompt],
        copilot_variables,
        ".copilot/hooks/custody.json",
        asks=True,
        proxied=lambda connection: {"COPILOT_PROVIDER_HEADERS": f"{KEY_HEADER}: {connection.key}"},
    ),
}


@dataclass
class Run:
    """What one run of a host left behind."""

    folder: Path
    output: str = ""

    def __str__(self) -> str:
        return self.output[-300:]


@dataclass(frozen=True)
class Program:
    """A host with the environment of one user."""

    host: HookedHost
    binary: Path
    environment: dict[str, str]

    def run(self, folder: Path, prompt: str, url: str) -> Run:
        work = folder / "work"
        work.mkdir(parents=True)
        for name, text in scenarios.PAGES.items():
            (work / name).write_text(text)
        command = [str(self.binary), *self.host.arguments(prompt, url)]
        environment = {**self.environment, **self.host.variables(url)}
        run = Run(work)
        # A group of its own, so that nothing of it outlives its limit.
        process = subprocess.Popen(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )
        try:
            run.output = process.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            run.output = process.communicate()[0] + f"\nstill running after {LIMIT_S} s"
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
