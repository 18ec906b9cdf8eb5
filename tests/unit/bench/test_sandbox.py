from __future__ import annotations

import json
import subprocess
import sys


def test_the_overhead_of_the_sandbox_can_be_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "sandbox", "--calls", "20", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert found["in_sandbox_ms"] > 0 < found["in_process_ms"]
    assert done.returncode == int(bool(found["missed"]))
