import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.shards import Ranges, halved, max_bytes, plan_shards, to_measure
from consumers.providers.protocol import Abilities
from schemas.policy import Sharding

ANY = Abilities(idempotent_submit=True)
bounds = st.one_of(st.none(), st.integers(1, 500))
byte_bounds = st.one_of(st.none(), st.integers(1, 10_000_000))


def test_without_bounds_a_document_is_one_job() -> None:
    assert plan_shards(2000, 10**9, Sharding(), ANY) == ((1, 2000),)


def test_shards_are_of_even_size() -> None:
    assert plan_shards(10, 1, Sharding(max_pages_per_job=4), ANY) == ((1, 4), (5, 7), (8, 10))


def test_the_services_bound_counts_where_it_is_lower() -> None:
    abilities = Abilities(idempotent_submit=True, max_pages_per_job=2)
    assert plan_shards(4, 1, Sharding(max_pages_per_job=3), abilities) == ((1, 2), (3, 4))


def test_a_bound_on_bytes_becomes_one_on_pages() -> None:
    assert plan_shards(4, 400, Sharding(max_bytes_per_job=200), ANY) == ((1, 2), (3, 4))
    assert plan_shards(4, 200, Sharding(max_bytes_per_job=200), ANY) == ((1, 4),)


def test_a_page_that_is_larger_than_the_bound_is_a_job_of_its_own() -> None:
    assert plan_shards(2, 10_000, Sharding(max_bytes_per_job=1), ANY) == ((1, 1), (2, 2))


@pytest.mark.parametrize("pages", [1, 7])
def test_a_bound_of_one_page_makes_a_job_of_every_page(pages: int) -> None:
    shards = plan_shards(pages, 1, Sharding(max_pages_per_job=1), ANY)
    assert shards == tuple((n, n) for n in range(1, pages + 1))


@given(st.integers(1, 3000), st.integers(1, 10**9), bounds, byte_bounds, bounds)
def test_every_page_is_in_exactly_one_shard_and_no_bound_is_exceeded(
    pages: int,
    size: int,
    policy_pages: int | None,
    policy_bytes: int | None,
    service_pages: int | None,
) -> None:
    shards = plan_shards(
        pages,
        size,
        Sharding(max_pages_per_job=policy_pages, max_bytes_per_job=policy_bytes),
        Abilities(idempotent_submit=True, max_pages_per_job=service_pages),
    )
    covered = [page for first, last in shards for page in range(first, last + 1)]
    assert covered == list(range(1, pages + 1))
    sizes = [last - first + 1 for first, last in shards]
    assert max(sizes) - min(sizes) <= 1
    for bound in (policy_pages, service_pages):
        assert bound is None or max(sizes) <= bound
    assert shards == plan_shards(
        pages,
        size,
        Sharding(max_pages_per_job=policy_pages, max_bytes_per_job=policy_bytes),
        Abilities(idempotent_submit=True, max_pages_per_job=service_pages),
    )


def fitted(sizes_of_pages: list[int], bound: int, overhead: int = 0) -> Ranges:
    """As `document.py` does, with parts that are as large as their pages and an overhead."""
    count = len(sizes_of_pages)
    ranges = plan_shards(count, sum(sizes_of_pages), Sharding(max_bytes_per_job=bound), ANY)
    sizes: dict[tuple[int, int], int] = {}
    while unknown := to_measure(ranges, sizes):
        for first, last in unknown:
            sizes[first, last] = overhead + sum(sizes_of_pages[first - 1 : last])
        ranges = halved(ranges, sizes, bound)
    return ranges


def test_pages_of_different_sizes_are_cut_finer_where_they_are_large() -> None:
    assert fitted([1, 1, 1, 1, 10, 10, 1, 1], 13) == ((1, 4), (5, 5), (6, 6), (7, 8))


def test_no_more_is_measured_than_could_be_cut() -> None:
    assert to_measure(((1, 1), (2, 4)), {}) == ((2, 4),)
    assert to_measure(((1, 1), (2, 4)), {(2, 4): 9}) == ()


def test_the_lower_of_the_two_bounds_on_bytes_counts() -> None:
    abilities = Abilities(idempotent_submit=True, max_bytes_per_job=50)
    assert max_bytes(Sharding(), ANY) is None
    assert max_bytes(Sharding(max_bytes_per_job=60), abilities) == 50
    assert max_bytes(Sharding(max_bytes_per_job=40), abilities) == 40


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(1, 3000))
def test_only_a_single_page_is_ever_larger_than_the_bound(pages: list[int], bound: int) -> None:
    ranges = fitted(pages, bound, overhead=20)
    assert [p for first, last in ranges for p in range(first, last + 1)] == list(
        range(1, len(pages) + 1)
    )
    for first, last in ranges:
        if sum(pages) > bound and first < last:
            assert 20 + sum(pages[first - 1 : last]) <= bound
