"""Tries everything that operators look at on the real thing.

Progress goes to stderr; the last line on stdout is one JSON object, and the exit code is 0 where
everything returned data and looked right.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.stage import own_servers, say
from tests.observe import prometheus
from tests.observe.expressions import OBSERVABILITY
from tests.observe.observed import observe, problems

LIMIT_S = 900


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shots", type=Path, help="keep pictures of the status page here")
    given = parser.parse_args()
    # So that a run that is told to end stops its servers and workers.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.alarm(LIMIT_S)
    rule_tests = _rule_tests()
    with TemporaryDirectory(prefix="observe-") as folder, own_servers() as servers:
        shots = given.shots or Path(folder)
        shots.mkdir(parents=True, exist_ok=True)
        seen = observe(servers, shots, say)
    wrong = problems(seen)
    for problem in wrong:
        print(f"WRONG: {problem}")
    for reason in seen.skipped:
        print(f"skipped: {reason}")
    found = seen.findings
    summary = {
        "panels": found.panels,
        "panels_with_data": found.panels_with_data,
        "rules": found.rules,
        "alerts": found.alerts,
        "expressions": found.expressions,
        "expressions_with_data": found.with_data,
        "excused": found.excused,
        "alerts_firing": found.alerts_firing,
        "exemplars": found.exemplars,
        "rule_test_cases": rule_tests,
        "page_problems": len(seen.page_problems),
        "skipped": len(seen.skipped),
        "problems": len(wrong),
    }
    print(json.dumps(summary))
    return 1 if wrong or seen.skipped else 0


def _rule_tests() -> int:
    """Runs promtool over the rules; gives the number of cases."""
    if prometheus.missing():
        return 0
    folder = OBSERVABILITY / "prometheus"
    prometheus.promtool("check", "config", "prometheus.yml", cwd=folder)
    files = sorted(file.name for file in (folder / "tests").glob("*.yml"))
    say(f"promtool test rules {' '.join(files)}")
    prometheus.promtool("test", "rules", *files, cwd=folder / "tests")
    return sum((folder / "tests" / file).read_text("utf-8").count("  - name:") for file in files)


if __name__ == "__main__":
    sys.exit(main())
