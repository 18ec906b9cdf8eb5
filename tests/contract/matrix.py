"""Runs the provider x behaviour matrix outside of pytest and shows it."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.behaviours import BEHAVIOURS
from tests.contract.subjects import SUBJECTS, Subject

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Cell:
    provider: str
    behaviour: str
    outcome: str
    reason: str = ""


def environment_without_accounts() -> dict[str, str]:
    """Keeps AWS's client away from real accounts and from the instance's metadata address."""
    return {
        "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKEFAKE",
        "AWS_SECRET_ACCESS_KEY": "fake/secret/key/s3cr3t-t0ken-7f3a9c5e1b",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def run() -> Iterator[Cell]:
    os.environ.update(environment_without_accounts())
    for kind in SUBJECTS:
        for name in BEHAVIOURS:
            yield _cell(kind, name)


def _cell(kind: type[Subject], name: str) -> Cell:
    if name in kind.ruled_out:
        return Cell(kind.name, name, SKIPPED, kind.ruled_out[name])
    with tempfile.TemporaryDirectory() as folder:
        subject = kind(Path(folder))
        try:
            BEHAVIOURS[name](subject)
        except (Exception, pytest.fail.Exception) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return Cell(kind.name, name, FAILED, f"{type(error).__name__} at {last.name}")
        finally:
            subject.close()
    return Cell(kind.name, name, PASSED)


def as_markdown(cells: list[Cell]) -> str:
    """One row a behaviour, one column a provider; what is ruled out has its reason below."""
    signs = {PASSED: "✓", FAILED: "✗"}
    providers = list(dict.fromkeys(cell.provider for cell in cells))
    reasons: dict[str, int] = {}
    rows: dict[str, list[str]] = {}
    for cell in cells:
        sign = signs.get(cell.outcome)
        if sign is None:
            sign = f"({reasons.setdefault(cell.reason, len(reasons) + 1)})"
        rows.setdefault(cell.behaviour, []).append(sign)
    lines = [
        "| behaviour | " + " | ".join(providers) + " |",
        "|---|" + ":-:|" * len(providers),
    ]
    lines += [f"| {name.replace('_', ' ')} | {' | '.join(row)} |" for name, row in rows.items()]
    lines += ["", "Ruled out by the service's contract:", ""]
    lines += [f"{number}. {reason}" for reason, number in reasons.items()]
    return "\n".join(lines)
