"""When everything is refused, dead letters are held back; and the storm finds its own end."""

from __future__ import annotations

from itertools import pairwise

from consumers.extraction.pressure.storm import DeadLetterStorm


def raging(threshold: int = 3) -> DeadLetterStorm:
    storm = DeadLetterStorm(threshold=threshold)
    for number in range(threshold):
        storm.refused(f"bundle-{number}", 0.0)
    return storm


def test_refusals_of_so_many_bundles_in_a_row_start_a_storm() -> None:
    storm = DeadLetterStorm(threshold=3)
    assert [storm.refused(f"bundle-{n}", 0.0) for n in range(3)] == [False, False, True]
    assert storm.on


def test_many_documents_of_one_bundle_are_no_storm() -> None:
    storm = DeadLetterStorm(threshold=3)
    assert not any(storm.refused("bundle-1", 0.0) for _ in range(20))


def test_a_success_between_starts_the_count_anew() -> None:
    storm = DeadLetterStorm(threshold=3)
    storm.refused("bundle-1", 0.0)
    storm.refused("bundle-2", 0.0)
    storm.succeeded()
    assert not storm.refused("bundle-3", 0.0)


def test_while_it_is_on_one_event_is_taken_in_per_interval() -> None:
    storm = raging()
    assert not storm.admits(4.9)
    assert storm.admits(5.0)
    storm.taken(5.0)
    assert not storm.admits(5.1)


def test_a_held_document_is_tried_again_though_no_new_event_ever_comes() -> None:
    storm = raging()
    assert not storm.probes(4.9)
    assert storm.probes(5.0)
    assert not storm.probes(5.1), "one at a time"


def test_probes_grow_rarer_while_the_service_still_refuses() -> None:
    storm = raging()
    probed = [second for second in range(300) if storm.probes(float(second))]
    gaps = [later - earlier for earlier, later in pairwise(probed)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == 30, "and never rarer than this: it bounds how late a recovery is noticed"


def test_a_new_storm_probes_as_early_as_the_first() -> None:
    storm = raging()
    for second in range(100):
        storm.probes(float(second))
    storm.succeeded()
    for number in range(3):
        storm.refused(f"bundle-{number}", 100.0)
    assert storm.probes(105.0)


def test_without_a_storm_nothing_is_a_probe() -> None:
    assert not DeadLetterStorm().probes(1e6)
