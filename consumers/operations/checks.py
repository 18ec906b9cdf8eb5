"""One finding of `bundles doctor`, and what every check shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """A worker starts, and something will not be as it should."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """``said``: what is so; ``fix``: what to do about it. What failed always has one."""

    name: str
    verdict: Verdict
    said: str
    fix: str | None = None


def ok(name: str, said: str) -> Check:
    return Check(name, Verdict.OK, said)


def warning(name: str, said: str, fix: str | None = None) -> Check:
    return Check(name, Verdict.WARNING, said, fix)


def failed(name: str, said: str, fix: str) -> Check:
    return Check(name, Verdict.FAILED, said, fix)


def guarded(name: str, checks: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """A check that itself breaks is a finding too; of the error only its kind is shown."""
    try:
        yield from checks()
    except Exception as error:
        yield failed(
            name,
            f"the check itself failed: {type(error).__name__}",
            f"look at the settings of {name}; if they are right, report this as a defect",
        )
