"""promtool's opinion of the shipped rules and configuration, and their unit tests."""

from __future__ import annotations

import pytest

from tests.observe import prometheus
from tests.observe.expressions import OBSERVABILITY

FOLDER = OBSERVABILITY / "prometheus"
TESTS = sorted(file.name for file in (FOLDER / "tests").glob("*.yml"))

pytestmark = pytest.mark.skipif(bool(prometheus.missing()), reason=str(prometheus.missing()))


def test_the_configuration_is_one_that_prometheus_takes() -> None:
    prometheus.promtool("check", "config", "prometheus.yml", cwd=FOLDER)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("file", TESTS)
def test_alerts_fire_when_they_should_and_only_then(file: str) -> None:
    prometheus.promtool("test", "rules", file, cwd=FOLDER / "tests")
