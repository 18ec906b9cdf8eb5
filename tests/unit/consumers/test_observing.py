"""What the worker tells as metrics is heard: every hook is one that the runtime calls."""

from __future__ import annotations

import logging

import pytest

from consumers.metrics import Metrics
from consumers.observing import RuntimeObserver
from consumers.runtime.observer import NullObserver


def test_no_hook_has_a_name_that_the_runtime_never_calls() -> None:
    known = set(dir(NullObserver)) | {"assigned"}
    ours = {name for name in vars(RuntimeObserver) if not name.startswith("_")}
    assert ours <= known


def test_errors_of_the_kafka_client_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="bundles.kafka"):
        RuntimeObserver(Metrics()).client_error("_ALL_BROKERS_DOWN")
    assert "_ALL_BROKERS_DOWN" in caplog.text
