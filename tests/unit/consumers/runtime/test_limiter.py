"""The limiter: bounded, fair between bundles, nothing starves, no place is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.runtime.limiter import Limiter, Permit, Request


class Served:
    """Records who got a place, in order, and holds the permits."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.order: list[str] = []
        self.permits: list[tuple[str, Permit]] = []

    def ask(self, share: str) -> Request:
        def granted(permit: Permit) -> None:
            self.order.append(share)
            self.permits.append((share, permit))

        return self.limiter.request(share, granted)

    def release_oldest(self) -> None:
        self.permits.pop(0)[1].release()


def test_free_places_are_given_at_once() -> None:
    served = Served(Limiter(2))
    served.ask("a")
    served.ask("a")
    served.ask("a")
    assert served.order == ["a", "a"]
    assert (served.limiter.in_use, served.limiter.waiting) == (2, 1)


def test_a_small_bundle_does_not_wait_behind_a_huge_one() -> None:
    served = Served(Limiter(4))
    for _ in range(1000):
        served.ask("huge")
    served.ask("small")
    served.release_oldest()
    assert served.order[-1] == "small"


def test_a_huge_bundle_is_not_starved_by_a_stream_of_small_ones() -> None:
    served = Served(Limiter(4))
    for _ in range(100):
        served.ask("huge")
    for number in range(100):
        served.ask(f"small-{number}")
        served.release_oldest()
    # More small ones arrive than places become free, so this is the hardest case for it.
    assert served.order[4:].count("huge") >= 5


def test_equal_bundles_take_turns() -> None:
    served = Served(Limiter(1))
    for share in ("a", "b", "c"):
        for _ in range(3):
            served.ask(share)
    while served.permits:
        served.release_oldest()
    rounds = [sorted(served.order[i : i + 3]) for i in (1, 4)]
    assert rounds == [["a", "b", "c"], ["a", "b", "c"]]


def test_within_a_bundle_the_oldest_is_first() -> None:
    limiter = Limiter(1)
    order: list[int] = []
    permits: list[Permit] = []
    for number in range(5):

        def granted(permit: Permit, number: int = number) -> None:
            order.append(number)
            permits.append(permit)

        limiter.request("a", granted)
    while permits:
        permits.pop().release()
    assert order == [0, 1, 2, 3, 4]


def test_releasing_twice_gives_back_one_place() -> None:
    served = Served(Limiter(1))
    served.ask("a")
    permit = served.permits[0][1]
    permit.release()
    permit.release()
    served.ask("b")
    served.ask("c")
    assert served.limiter.in_use == 1


def test_a_cancelled_waiter_is_passed_over() -> None:
    served = Served(Limiter(1))
    served.ask("a")
    waiting = served.ask("b")
    served.ask("c")
    waiting.cancel()
    served.release_oldest()
    assert served.order == ["a", "c"]
    assert served.limiter.waiting == 0


def test_a_capacity_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Limiter(0)


@given(
    capacity=st.integers(1, 5),
    moves=st.lists(st.tuples(st.sampled_from("rack"), st.integers(0, 4)), max_size=200),
)
def test_places_are_never_exceeded_nor_lost(capacity: int, moves: list[tuple[str, int]]) -> None:
    limiter = Limiter(capacity)
    served = Served(limiter)
    requests: list[Request] = []
    for move, which in moves:
        if move in "ra" and served.permits:
            served.permits.pop(which % len(served.permits))[1].release()
        elif move == "c" and requests:
            requests.pop(which % len(requests)).cancel()
        else:
            requests.append(served.ask(f"share-{which}"))
        assert limiter.in_use == len(served.permits) <= capacity
        assert limiter.waiting == sum(r.waiting for r in requests)
        assert (
            limiter.waiting == 0 or limiter.in_use == capacity
        )  # nobody waits beside a free place
    while served.permits:
        served.release_oldest()
    assert (limiter.in_use, limiter.waiting) == (0, 0)
    assert not limiter._shares  # bundles leave nothing behind
