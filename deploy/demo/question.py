"""The question that an operator asks after a run: `bundles trace`, and how long it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

IMAGE, BUNDLE = "page-002-image-001", "demo-merged"
BOUND_S = 1.0
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answered:
    """``answer_s``: from the command's start to its answer, as it says itself; None where it has no
    answer. ``process_s``: with the interpreter's own start, which a busy machine makes long."""

    answer_s: float | None
    process_s: float

    @property
    def in_time(self) -> bool:
        return self.answer_s is not None and self.answer_s < BOUND_S

    def line(self) -> str:
        command = f"bundles trace {IMAGE} --bundle {BUNDLE}"
        if self.answer_s is None:
            return f"{command}: NO ANSWER ({self.process_s:.2f} s)"
        late = "" if self.in_time else f", OVER {BOUND_S:g} s"
        return (
            f"{command}: answered in {self.answer_s:.2f} s{late} "
            f"(the whole process {self.process_s:.2f} s)"
        )


def ask(settings: Mapping[str, str]) -> Answered:
    """``settings``: ``BUNDLES_...`` variables of where the demo ran."""
    started = time.monotonic()
    ran = _trace(settings, "--json")
    return judge(ran.returncode, ran.stdout, time.monotonic() - started)


def as_shown(settings: Mapping[str, str]) -> str:
    """The same answer as people see it."""
    return _trace(settings).stdout.rstrip()


def judge(code: int, said: str, process_s: float) -> Answered:
    """An answer is one trace, of that image, with its manifest."""
    if code != 0:
        return Answered(None, process_s)
    answer: dict[str, Any] = json.loads(said)
    found = [(t["state"], (t["image"] or {}).get("name")) for t in answer["traces"]]
    whole = found == [("extracted", IMAGE)]
    return Answered(float(answer["answered_in_s"]) if whole else None, process_s)


def _trace(settings: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BUNDLES_")}
    return subprocess.run(
        [
            *(sys.executable, "-m", "consumers.cli", "trace", IMAGE, "--bundle", BUNDLE),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**clean, **settings},
        check=False,
    )
