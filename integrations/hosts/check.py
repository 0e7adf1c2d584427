"""Drives unmodified programs against a scripted model, directly and through Custody.

    python3 integrations/hosts/check.py --custody PATH --work DIR [--only NAME,NAME] [--direct] [--latest] [--jobs N]

prints one line for each check, `ok`, `FAILED` or `skipped`, and at the end one line of JSON with the figures.
The exit code is 1 if a check failed. `--direct` runs the controls alone, which need no Custody. The groups run side by
side, each in a process of its own, and the lines of one stand together. `--latest` takes the newest programs in place of
those that were tested.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from agent_sdk_checks import AGENT_SDK, check_agent_sdk
from claude_checks import check_claude
from client_checks import CLIENTS, check_client
from hook_checks import check_host
from hosts import HOSTS
from mcp_checks import MCP_CLIENTS, check_mcp
from programs import Programs
from recovery_checks import check_end_to_end
from report import Report

HOST = "claude"
END_TO_END = "end_to_end"
# Those that take longest come first, so that no worker ends long before the other.
NAMES = (HOST, *HOSTS, *MCP_CLIENTS, END_TO_END, AGENT_SDK, *CLIENTS)
JOBS = 2


def main() -> int:
    options = parse()
    work = options.work.resolve()
    if options.figures:
        return run_group(options, work)
    shutil.rmtree(work / "runs", ignore_errors=True)
    figures: Counter[str] = Counter()
    others: dict[str, object] = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        running = [workers.submit(start_group, name, work / "runs") for name in options.only]
        has_failed = False
        for group in concurrent.futures.as_completed(running):
            code, printed, found = group.result()
            print(printed, end="", flush=True)
            has_failed |= code != 0
            figures.update({name: count for name, count in found.items() if not is_other(name)})
            others |= {name: value for name, value in found.items() if is_other(name)}
    print(json.dumps({**figures, **others}))
    return 1 if has_failed else 0


def is_other(name: str) -> bool:
    """Whether a figure is none that is summed up."""
    return name.startswith(("versions.", "seconds."))


def start_group(name: str, runs: Path) -> tuple[int, str, dict]:
    """Runs a group as this program with the same arguments. Returns its exit code, what it printed and its figures."""
    runs.mkdir(parents=True, exist_ok=True)
    figures = runs / f"{name}.json"
    began = time.monotonic()
    command = [sys.executable, __file__, *sys.argv[1:], "--only", name, "--figures", str(figures)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = json.loads(figures.read_text()) if figures.exists() else {}
    return done.returncode, done.stdout, {**found, f"seconds.{name}": round(time.monotonic() - began)}


def run_group(options: argparse.Namespace, work: Path) -> int:
    custody = None if options.direct else options.custody.resolve()
    programs, report = Programs(work, options.latest), Report()
    for name in options.only:
        if name == HOST:
            check_claude(report, programs, work, custody)
        elif name == END_TO_END:
            check_end_to_end(report, programs, work, custody)
        elif name == AGENT_SDK:
            check_agent_sdk(report, programs, work, custody)
        elif name in MCP_CLIENTS:
            check_mcp(report, MCP_CLIENTS[name], programs, work, custody)
        elif name in HOSTS:
            check_host(report, HOSTS[name], programs, work, custody)
        else:
            check_client(report, CLIENTS[name], programs, work, custody)
    options.figures.write_text(json.dumps(report.all_figures()))
    return 1 if report.has_failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--custody", type=Path, help="the custody program")
    parser.add_argument("--work", type=Path, required=True, help="folder for installed programs and for runs")
    parser.add_argument("--only", type=names, default=NAMES, help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--direct", action="store_true", help="without Custody")
    parser.add_argument("--latest", action="store_true", help="the newest programs in place of those that were tested")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many groups run side by side [default: {JOBS}]")
    parser.add_argument("--figures", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.direct and not options.custody:
        parser.error("name the program with --custody, or run the controls alone with --direct")
    return options


def names(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"`{unknown[0]}` is none of {', '.join(NAMES)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
