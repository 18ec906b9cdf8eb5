"""Work that a signal ends: tidied up whole, once, whatever the moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from deploy.local.ending import Ended, run_until_signal

pytestmark = pytest.mark.usefixtures("not_under_nohup")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def send(number: signal.Signals) -> Callable[[], str]:
    """To this process."""

    def work() -> str:
        os.kill(os.getpid(), number)
        return "not ended"

    return work


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_work_and_then_all_is_tidied_up(number: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in SIGNALS]
    tidied: list[str] = []
    with pytest.raises(Ended, match=number.name) as ended:
        run_until_signal(send(number), lambda: tidied.append("whole"))
    assert ended.value.exit_code == 128 + number
    assert tidied == ["whole"]
    assert [signal.getsignal(one) for one in SIGNALS] == before


def test_signals_that_come_at_once_end_it_once() -> None:
    tidied: list[str] = []

    def work() -> None:
        try:
            send(signal.SIGTERM)()
        finally:
            send(signal.SIGINT)()
            tidied.append("on the way out")

    with pytest.raises(Ended, match="SIGTERM"):
        run_until_signal(work, lambda: tidied.append("whole"))
    assert tidied == ["on the way out", "whole"]


@pytest.mark.parametrize("number", SIGNALS)
def test_tidying_up_is_not_interrupted(number: signal.Signals) -> None:
    tidied: list[str] = []

    def tidy_up() -> None:
        send(number)()
        tidied.append("whole")

    assert run_until_signal(lambda: "done", tidy_up) == "done"
    assert tidied == ["whole"]


def test_work_that_fails_is_tidied_up_too() -> None:
    def fail() -> None:
        raise ValueError("of its own")

    tidied: list[str] = []
    with pytest.raises(ValueError, match="of its own"):
        run_until_signal(fail, lambda: tidied.append("whole"))
    assert tidied == ["whole"]


def test_a_hang_up_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_until_signal(send(signal.SIGHUP), lambda: None) == "not ended"
    finally:
        signal.signal(signal.SIGHUP, before)
