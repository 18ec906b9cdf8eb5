"""How long a topic has refused everything decides whether the worker calls itself ready."""

from __future__ import annotations

from consumers.extraction.pressure.outbox import Outbox


def test_the_time_counts_from_the_first_refusal() -> None:
    outbox = Outbox()
    outbox.refused("results", 10.0)
    outbox.refused("results", 40.0)
    assert outbox.refusing_for(70.0) == ("results", 60.0)


def test_one_delivery_says_that_the_topic_works() -> None:
    outbox = Outbox()
    outbox.refused("results", 10.0)
    outbox.delivered("results")
    assert outbox.refusing_for(70.0) is None


def test_a_topic_that_works_does_not_excuse_one_that_does_not() -> None:
    outbox = Outbox()
    outbox.refused("dead-letters", 10.0)
    outbox.refused("results", 20.0)
    outbox.delivered("results")
    assert outbox.refusing_for(30.0) == ("dead-letters", 20.0)
