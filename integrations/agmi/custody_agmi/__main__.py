"""Runs agmi's nine edits against a Custody store and prints the nine verdicts.

    python -m custody_agmi [--custody PROGRAM] [--forged] [--json]

Exit status 0 when all nine are refused on read, 1 when one is not, 2 when one could not be tried.
"""

from __future__ import annotations

import argparse
import json
import sys

from agmi.check import run

from custody_agmi.adapter import CustodyAdapter, CustodyForgedAdapter

REFUSED = "REJECTED"
"""agmi's word for an edit that the tool refused when it was read."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="custody-agmi", description="agmi's nine edits against a Custody store.")
    parser.add_argument("--custody", help="the program [default: $CUSTODY, else `custody` on the PATH]")
    parser.add_argument("--forged", action="store_true", help="also recompute whatever has no key")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    adapter = (CustodyForgedAdapter if arguments.forged else CustodyAdapter)(arguments.custody)
    verdicts = run(adapter)
    refused = sum(row["verdict"] == REFUSED for row in verdicts)
    if arguments.json:
        print(json.dumps({"tool": adapter.name, "refused_on_read": refused, "edits": verdicts}, indent=2))
    else:
        for row in verdicts:
            print(f"{row['edit']:24} {row['verdict']:13} {row['detail']}")
        print(f"{refused} of {len(verdicts)} refused on read")
    if any(row["verdict"] in ("ERROR", "NOT EVALUABLE") for row in verdicts):
        return 2
    return 0 if refused == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
