"""A worker as `bundles run` makes it, but doomed: ``--die-at`` a boundary it kills itself, with
``--hang-at`` it blocks there.

    python -m tests.faults.worker --config FILE --ready-file FILE [--die-at polled:2]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from consumers import logs
from consumers.app import Application, Refused
from consumers.settings import load
from tests.faults.boundaries import arm, die, hang


def main() -> int:
    parser = argparse.ArgumentParser(description="A worker that dies or hangs at a boundary.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--die-at", metavar="BOUNDARY[:N]")
    parser.add_argument("--hang-at", metavar="BOUNDARY[:N]")
    given = parser.parse_args()
    settings = load(config=given.config)
    logs.configure(settings.log.level, settings.log.format)
    with ExitStack() as stack:
        try:
            application = Application(settings, stack)
        except Refused as refused:
            print(refused.message, file=sys.stderr)
            return int(refused.code)
        if given.die_at:
            arm(application, given.die_at, die)
        if given.hang_at:
            arm(application, given.hang_at, hang)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: application.worker.stop())
        ready = {"http": application.health.address, "pid": os.getpid()}
        partial = given.ready_file.with_suffix(".tmp")
        partial.write_text(json.dumps(ready) + "\n")
        partial.replace(given.ready_file)
        return int(application.worker.run())


if __name__ == "__main__":
    sys.exit(main())
