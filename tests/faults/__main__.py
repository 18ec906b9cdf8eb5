"""Fault runs: real worker processes, SIGKILL, Apache Kafka, a real S3 server.

    python -m tests.faults crash --rounds 40
    python -m tests.faults rebalance
    python -m tests.faults outage

Servers are started and removed unless their addresses are given. Progress goes to stderr; the last
line on stdout is one JSON object, and the exit code is 0 where it holds what was promised.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.faults.crash import crash
from tests.faults.outage import outage
from tests.faults.rebalance import rebalance
from tests.faults.stage import Servers, own_servers

ALWAYS_ZERO = (
    "lost",
    "dead_letters",
    "dead_letters_caused",
    "manifests_conflicting",
    "jobs_resubmitted",
    "results_missing",
    "results_differing",
    "images_missing",
    "orphans_after_sweep",
    "verify_faults",
    "offsets_went_back",
)
AT_MOST = {"seconds_to_end": 30.0, "seconds_to_recover": 15.0}


def main() -> int:
    given = _parser().parse_args()
    # So that a run that is told to end stops its servers and workers.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(int(given.limit))
    run: Callable[[argparse.Namespace, Servers], dict[str, Any]] = given.run
    with _servers(given) as servers:
        found = run(given, servers)
    broken = problems(found)
    if not given.json:
        width = max(map(len, found))
        for name, value in found.items():
            print(f"{name:<{width}}  {value}{'   <-- NOT AS PROMISED' if name in broken else ''}")
    print(json.dumps(found))
    return 1 if broken else 0


def problems(found: Mapping[str, Any]) -> list[str]:
    """Names of the numbers that break a promise."""
    broken = [name for name in ALWAYS_ZERO if found.get(name)]
    broken += [
        name
        for name, most in AT_MOST.items()
        if name in found and (found[name] is None or found[name] > most)
    ]
    if found.get("boundaries_not_reached"):
        broken.append("boundaries_not_reached")
    return broken


def _too_long(*_: object) -> None:
    raise TimeoutError("the run took longer than --limit allows")


@contextmanager
def _servers(given: argparse.Namespace) -> Iterator[Servers]:
    if given.kafka or given.s3:
        if not (given.kafka and given.s3):
            raise SystemExit("give both --kafka and --s3, or neither")
        yield Servers(
            given.kafka,
            given.s3,
            os.environ.get("S3_ACCESS_KEY", ""),
            os.environ.get("S3_SECRET_KEY", ""),
        )
        return
    with own_servers() as servers:
        yield servers


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--kafka", help="bootstrap address of a Kafka to use (with --s3)")
    common.add_argument(
        "--s3", help="URL of a store to use; keys from S3_ACCESS_KEY and S3_SECRET_KEY"
    )
    common.add_argument("--limit", type=float, default=3600, help="seconds the run may take")
    common.add_argument("--json", action="store_true", help="only the JSON line on stdout")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="RUN")

    one = commands.add_parser(
        "crash", parents=[common], help="SIGKILL at every boundary, at random, and under load"
    )
    one.add_argument("--rounds", type=int, default=40)
    one.add_argument("--lanes", type=int, default=2, help="pipelines side by side")
    one.add_argument("--session", type=float, default=6.0, help="Kafka's session timeout, seconds")
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--kills", type=int, default=2, help="under load; 0 leaves that part out")
    one.set_defaults(
        run=lambda given, servers: crash(
            servers,
            rounds=given.rounds,
            lanes=given.lanes,
            session_s=given.session,
            seed=given.seed,
            kills=given.kills,
        )
    )

    one = commands.add_parser(
        "rebalance", parents=[common], help="members join and leave under back-pressure"
    )
    one.add_argument("--changes", type=int, default=20, help="joins and leaves")
    one.add_argument("--group-protocol", choices=("classic", "consumer"), default="classic")
    one.set_defaults(
        run=lambda given, servers: rebalance(
            servers, changes=given.changes, protocol=given.group_protocol
        )
    )

    one = commands.add_parser(
        "outage", parents=[common], help="broker, store and service stopped, in turn and together"
    )
    one.add_argument("--seconds", type=float, default=60.0, help="each outage's length")
    one.add_argument(
        "--only", choices=("broker", "store", "service", "all"), action="append", default=[]
    )
    one.set_defaults(
        run=lambda given, servers: outage(servers, seconds=given.seconds, only=given.only)
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
