"""Simulates workers: ``--seed N --verbose`` replays one run, ``--seeds N`` makes many."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import traceback

from tests.simulation.scenario import from_seed
from tests.simulation.world import Simulator


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--verbose", action="store_true", help="show everything that happens")
    parser.add_argument("--json", action="store_true", help="end with a line of JSON")
    parser.add_argument("--stop-after", type=int, default=10, help="failing seeds to stop after")
    arguments = parser.parse_args()
    if not arguments.verbose:
        logging.disable(logging.CRITICAL)
    if arguments.seed is not None:
        first, count = arguments.seed, 1
    else:
        first, count = arguments.first, arguments.seeds
    started = time.monotonic()
    failed: dict[int, str] = {}
    totals: dict[str, float] = {}
    ran = 0
    with Simulator() as simulator:
        for seed in range(first, first + count):
            ran += 1
            try:
                scenario = from_seed(seed)
                if arguments.verbose:
                    print(scenario)
                world = simulator.run(scenario, trace=print if arguments.verbose else None)
                for name, value in vars(world.report()).items():
                    if isinstance(value, int | float) and name != "seed":
                        totals[name] = totals.get(name, 0) + value
            except Exception as error:
                if arguments.verbose or not isinstance(error, AssertionError):
                    traceback.print_exc()
                failed[seed] = str(error)[:300]
                print(f"FAILED {str(error)[:1000]}", flush=True)
                if len(failed) >= arguments.stop_after:
                    break
    seconds = time.monotonic() - started
    print(
        f"{ran} seeds in {seconds:.1f} s ({ran / seconds:.0f}/s), {len(failed)} failed",
        file=sys.stderr if arguments.json else sys.stdout,
    )
    if arguments.json:
        summary = {name: round(value, 3) for name, value in totals.items()}
        print(
            json.dumps(
                {
                    "seeds": ran,
                    "failed": sorted(failed),
                    "seconds": round(seconds, 1),
                    "seeds_per_second": round(ran / seconds, 1),
                    **summary,
                }
            )
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
