"""What is said about a topic's settings."""

from __future__ import annotations

import pytest

from schemas.topics import OWN_HEADERS_BYTES, TOPIC_CONFIG
from sinks.topic_rules import Judgement, Placement, judge

MIB = 2**20
THREE = Placement(replicas=3, brokers=3)
SAFE = {"cleanup.policy": "delete", "min.insync.replicas": "2"}


def of(role: str, *, events: int = MIB, placement: Placement = THREE, **changes: str) -> Judgement:
    config = SAFE | TOPIC_CONFIG[role] | {k.replace("_", "."): v for k, v in changes.items()}
    return judge(role, config, events, placement)


@pytest.mark.parametrize("role", TOPIC_CONFIG)
def test_a_topic_as_we_create_it_is_as_needed(role: str) -> None:
    assert of(role) == Judgement()
    assert of(role, placement=Placement(1, 1), min_insync_replicas="1") == Judgement()


def test_a_dead_letter_topic_must_take_what_the_events_topic_takes_and_our_headers() -> None:
    raised = 4 * MIB
    (problem,) = of("dead_letters", events=raised).problems
    assert str(raised + OWN_HEADERS_BYTES) in problem
    enough = str(raised + OWN_HEADERS_BYTES)
    assert of("dead_letters", events=raised, max_message_bytes=enough) == Judgement()
    assert of("results", events=raised) == Judgement()


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_drops_records(policy: str) -> None:
    (problem,) = of("ledger", cleanup_policy=policy).problems
    assert "compact" in problem


@pytest.mark.parametrize(
    ("retention", "said"),
    [("3600000", "3600000 (1h)"), ("7776000000", None), ("9999999999999", None), ("-1", None)],
)
def test_a_shorter_retention_than_the_designs_is_a_warning(
    retention: str, said: str | None
) -> None:
    found = of("dead_letters", retention_ms=retention)
    assert found.problems == ()
    assert [said in one for one in found.warnings if said] == ([True] if said else [])
    assert bool(found.warnings) == (said is not None)


@pytest.mark.parametrize(
    ("placement", "in_sync", "warned"),
    [
        (Placement(1, 1), "1", False),
        (Placement(1, 3), "1", True),
        (Placement(3, 3), "1", True),
        (Placement(3, 3), "2", False),
        (Placement(3, 3), "3", True),
        (Placement(2, 3), "2", True),
    ],
)
def test_replicas_that_do_not_outlive_a_broker_or_stop_with_one_are_a_warning(
    placement: Placement, in_sync: str, warned: bool
) -> None:
    found = of("events", placement=placement, min_insync_replicas=in_sync)
    assert found.problems == ()
    assert bool(found.warnings) == warned


def test_more_replicas_in_sync_than_there_are_is_a_problem() -> None:
    (problem,) = of("events", placement=Placement(1, 3), min_insync_replicas="2").problems
    assert "nothing can be written" in problem


def test_what_the_brokers_do_not_tell_is_not_judged() -> None:
    assert judge("events", {}, MIB, THREE) == Judgement()
