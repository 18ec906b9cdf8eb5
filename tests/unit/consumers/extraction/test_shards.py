import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.shards import plan_shards
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
