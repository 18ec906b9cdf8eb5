"""How many integration tests really ran: a plug-in of pytest.

A skip looks like success. ``MIN_INTEGRATION_TESTS=N`` makes the run fail when fewer than N tests
marked ``integration`` ran to their end, passed or failed.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

_ran = pytest.StashKey[int]()


def required() -> int | None:
    text = os.environ.get("MIN_INTEGRATION_TESTS", "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise pytest.UsageError(f"MIN_INTEGRATION_TESTS must be a number, not {text!r}") from None


def pytest_configure(config: pytest.Config) -> None:
    required()  # a wrong value is an error before the tests, not after
    config.stash[_ran] = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # The marker itself: `report.keywords` also holds the names of folders.
    if report.when == "call" and item.get_closest_marker("integration"):
        item.config.stash[_ran] += report.outcome in ("passed", "failed")
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _too_few(session.config) and session.exitstatus in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    ran, minimum = config.stash[_ran], required()
    if _too_few(config):
        terminalreporter.write_line(
            f"FAILED: {ran} integration tests ran, MIN_INTEGRATION_TESTS={minimum} asks for more",
            red=True,
        )
    elif ran or minimum is not None:
        terminalreporter.write_line(f"integration tests that ran: {ran}")


def _too_few(config: pytest.Config) -> bool:
    minimum = required()
    return minimum is not None and not config.option.collectonly and config.stash[_ran] < minimum
