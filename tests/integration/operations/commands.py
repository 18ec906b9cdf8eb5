"""The commands as an operator runs them: processes of their own, told where the settings are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tests.pipeline import Pipeline


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def last(self) -> Any:
        """The last line as JSON."""
        assert self.out.strip(), self.err
        return json.loads(self.out.splitlines()[-1])

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def bundles(pipeline: Pipeline, *arguments: str) -> Ran:
    """``bundles <arguments>`` with the pipeline's settings."""
    pipeline.settings()  # writes the file
    done = subprocess.run(
        [
            *(sys.executable, "-m", "consumers.cli", *arguments),
            *("--config", str(pipeline.folder / "settings.toml")),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={k: v for k, v in os.environ.items() if not k.startswith("BUNDLES_")},
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
