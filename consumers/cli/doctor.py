"""``bundles doctor``: is everything there that a worker needs?"""

from __future__ import annotations

import json

import typer

from consumers.cli.common import ConfigOption, JsonOption, SetOption, settings


def doctor(
    config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False
) -> None:
    """Check Kafka (brokers, topics, permissions), the buckets, conditional writes, the extraction
    services, libmagic, the temporary disk and the sandbox, and say what to fix.

    Changes nothing, but for objects below `_probe/` that are removed again. Exit code 1 when a
    worker could not work.
    """
    from consumers.operations.checks import Check, Verdict
    from consumers.operations.doctor import examine

    found = settings(config, set_)
    checks: list[Check] = []
    for check in examine(found):
        checks.append(check)
        if not as_json:
            print(f"{check.verdict:8} {check.name}: {check.said}", flush=True)
            if check.fix:
                print(f"{'':8} -> {check.fix}", flush=True)
    failures = sum(check.verdict is Verdict.FAILED for check in checks)
    warnings = sum(check.verdict is Verdict.WARNING for check in checks)
    if as_json:
        rows = [
            {"name": c.name, "verdict": c.verdict, "said": c.said, "fix": c.fix} for c in checks
        ]
        print(json.dumps({"failed": failures, "warnings": warnings, "checks": rows}))
    else:
        print(f"{len(checks)} checks: {failures} failed, {warnings} warning(s)")
    if failures:
        raise typer.Exit(1)
