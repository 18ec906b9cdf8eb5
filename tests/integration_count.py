"""How many integration tests really ran: a plug-in of pytest.

A skip looks like success. ``MIN_INTEGRATION_TESTS=N`` makes the run fail when fewer than N tests
marked ``integration`` ran to their end, passed or failed. Where several processes run the tests
(pytest-xdist), the one that started them counts.
"""

from __future__ import annotations

import os

import pytest

_ran = pytest.StashKey[int]()
_MARK = ("mark", "integration")
"""A property of a report: it comes to the process that counts, and the markers do not."""


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
    config.pluginmanager.register(_Count(config))


def pytest_itemcollected(item: pytest.Item) -> None:
    # The marker itself: `report.keywords` also holds the names of folders.
    if item.get_closest_marker("integration"):
        item.user_properties.append(_MARK)


class _Count:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and _MARK in map(tuple, report.user_properties):
            self._config.stash[_ran] += report.outcome in ("passed", "failed")


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
    if minimum is None or config.option.collectonly or hasattr(config, "workerinput"):
        return False  # a process of several: it ran its share only
    return config.stash[_ran] < minimum
