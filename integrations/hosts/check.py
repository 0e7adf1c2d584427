"""Drives unmodified programs against a scripted model, directly and through Custody.

    python3 integrations/hosts/check.py --custody PATH --work DIR [--only NAME,NAME] [--direct]

prints one line for each check, `ok`, `FAILED` or `skipped`, and at the end one line of JSON with the figures.
The exit code is 1 if a check failed. `--direct` runs the controls alone, which need no Custody.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

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
NAMES = (HOST, *HOSTS, *CLIENTS, *MCP_CLIENTS, END_TO_END)


def main() -> int:
    options = parse()
    work = options.work.resolve()
    shutil.rmtree(work / "runs", ignore_errors=True)
    custody = None if options.direct else options.custody.resolve()
    programs, report = Programs(work), Report()
    for name in options.only:
        if name == HOST:
            check_claude(report, programs, work, custody)
        elif name == END_TO_END:
            check_end_to_end(report, programs, work, custody)
        elif name in MCP_CLIENTS:
            check_mcp(report, MCP_CLIENTS[name], programs, work, custody)
        elif name in HOSTS:
            check_host(report, HOSTS[name], programs, work, custody)
        else:
            check_client(report, CLIENTS[name], programs, work, custody)
    report.print_figures()
    return 1 if report.has_failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--custody", type=Path, help="the custody program")
    parser.add_argument("--work", type=Path, required=True, help="folder for installed programs and for runs")
    parser.add_argument("--only", type=names, default=NAMES, help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--direct", action="store_true", help="without Custody")
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
