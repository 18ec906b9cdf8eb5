"""`python -m tests.contract [--json | --markdown]`: the provider x behaviour matrix."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys

from tests.contract import live
from tests.contract.matrix import FAILED, PASSED, SKIPPED, Cell, as_markdown, run

LIVE_CHECKS = "Against the real service, where its account is in the environment:"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON line a cell, then the counts")
    form.add_argument("--markdown", action="store_true", help="the table of the README")
    given = parser.parse_args()
    live_checks = live.run(dict(os.environ))
    cells: list[Cell] = []
    for cell in run():
        cells.append(cell)
        if given.json:
            print(json.dumps(dataclasses.asdict(cell)), flush=True)
        elif not given.markdown and cell.outcome != PASSED:
            print(f"{cell.outcome}: {cell.provider}: {cell.behaviour}: {cell.reason}", flush=True)
    counts = {
        outcome: sum(1 for cell in cells if cell.outcome == outcome)
        for outcome in (PASSED, FAILED, SKIPPED)
    }
    if given.markdown:
        print(as_markdown(cells))
        print(f"\n{LIVE_CHECKS}\n")
        print(live.as_markdown(live_checks))
    else:
        print(
            json.dumps(counts | {"live": {check.provider: check.outcome for check in live_checks}})
        )
    failed = counts[FAILED] or any(check.outcome == live.FAILED for check in live_checks)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
