"""Benchmarks on real servers, everything on loopback.

    python -m tests.bench NAME [--json] [--check] [--plots FOLDER] [options of the benchmark]

The last line is JSON: what was measured, versions, machine and seed, and at its end which goals
(`tests.bench.goals`) were ``missed``. With ``--json`` nothing else is printed on standard output;
what goes on is told on standard error. With ``--check`` it ends with 1 when a goal was missed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from tests.bench.harness import last_line

HERE = {
    "cost": "CPU, memory and throughput per document with an instant service",
    "efficiency": "share of the service's capacity that is used, against peers",
    "polling": "poll lag and polls per job, learned against doubling",
    "fairness": "small documents behind a bundle of 900 pages, and of 500 documents",
    "mixed": "tiny, long and near-limit documents, bursts of splits and merges, in one worker",
    "parts": "whether the causes add up to the end-to-end time",
    "service_times": "what a document costs at every station: data for scale",
    "scale": "1 to 64 workers by simulation",
}
ELSEWHERE = {"shards", "trace", "hanging", "sandbox"}
"""Programs of their own with arguments of their own."""
SEEDED = {"mixed", "parts", "polling", "scale"}
"""In the others nothing is random: the seed that they print is null."""


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ELSEWHERE and importlib.util.find_spec(f"tests.bench.{name}"):
        return subprocess.call([sys.executable, "-m", f"tests.bench.{name}", *sys.argv[2:]])
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for command, summary in HERE.items():
        if not importlib.util.find_spec(f"tests.bench.{command}"):
            continue
        sub = commands.add_parser(command, help=summary, description=summary)
        sub.add_argument("--json", action="store_true", help="only the last line")
        sub.add_argument("--check", action="store_true", help="end with 1 when a goal is missed")
        sub.add_argument("--plots", type=Path, help="folder for PNG files")
        if command in SEEDED:
            sub.add_argument("--seed", type=int, default=1)
        importlib.import_module(f"tests.bench.{command}").arguments(sub)
    for command in sorted(ELSEWHERE):
        commands.add_parser(command, add_help=False, help=f"see tests/bench/{command}.py")
    given = parser.parse_args()
    result = importlib.import_module(f"tests.bench.{given.name}").run(given)
    line = last_line(given.name, getattr(given, "seed", None), result)
    if not given.json:
        print(json.dumps(line, indent=2))
    print(json.dumps(line))
    return int(given.check and bool(line["missed"]))


if __name__ == "__main__":
    sys.exit(main())
