"""Writes the dashboards and METRICS.md. See the package."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from deploy.observability.dashboards import DASHBOARDS
from deploy.observability.panels import RUNBOOK, as_json
from deploy.observability.reference import metrics_reference

FOLDER = Path(__file__).parent


def generated(runbook: str = RUNBOOK) -> dict[Path, str]:
    """Text by file, relative to this folder."""
    made = {
        Path("grafana/dashboards") / f"{dashboard.uid}.json": json.dumps(
            as_json(dashboard, runbook), indent=1
        )
        + "\n"
        for dashboard in DASHBOARDS
    }
    made[Path("METRICS.md")] = metrics_reference()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the dashboards and METRICS.md anew.")
    parser.add_argument("--runbook", default=RUNBOOK, help="where RUNBOOK.md is published")
    parser.add_argument("--to", type=Path, default=FOLDER)
    given = parser.parse_args()
    for file, text in generated(given.runbook).items():
        target = given.to / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        print(target)


if __name__ == "__main__":
    main()
