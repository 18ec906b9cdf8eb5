"""Runs a folder of tests as a check of its own, whose last line is one JSON object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent


def run(name: str, folder: str, facts: Mapping[str, Any]) -> int:
    """The exit code: 0 when every test ran and passed. A skipped one does not count as passed."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.xml"
        # A process of its own: what the Kafka client still writes at its end comes before our line.
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", folder, f"--junitxml={report}"],
            cwd=ROOT,
            env={**os.environ, "REQUIRE_REAL_KAFKA": "1"},
            check=False,
        )
        outcomes = _outcomes(report) if report.exists() else {}
    counts = Counter(outcomes.values())
    ok = ran.returncode == 0 and counts["passed"] == len(outcomes) > 0
    line = {
        "check": name,
        "ok": ok,
        **facts,
        "passed": counts["passed"],
        "failed": counts["failed"],
        "skipped": counts["skipped"],
        "seconds": round(time.monotonic() - started, 1),
        "not_passed": sorted(test for test, outcome in outcomes.items() if outcome != "passed"),
    }
    sys.stderr.flush()
    print(json.dumps(line), flush=True)
    return 0 if ok else 1


def _outcomes(report: Path) -> dict[str, str]:
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        children = {child.tag for child in case}
        if children & {"failure", "error"}:
            outcome = "failed"
        else:
            outcome = "skipped" if "skipped" in children else "passed"
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return outcomes
