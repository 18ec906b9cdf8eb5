"""CONTRIBUTING.md names every variable by which a test run can be changed."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
READERS = ("tests/servers.py", "tests/containers.py", "tests/integration_count.py")


def test_every_variable_that_the_test_servers_read_is_in_the_table() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text()
    sources = "".join((ROOT / name).read_text() for name in READERS)
    read = set(re.findall(r"\"((?:KAFKA|S3|TEST|REQUIRE|MIN)_[A-Z_0-9]+)\"", sources))
    settings = {name for name in read if name.startswith(("KAFKA_", "S3_"))} & set(
        re.findall(r"\"(KAFKA_[A-Z_0-9]+)\": ", sources)
    )  # of the container's Kafka
    assert {"KAFKA_BOOTSTRAP", "S3_IMAGE", "TEST_SERVERS"} <= read
    assert [name for name in sorted(read - settings) if f"`{name}" not in table] == []
