from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.page_runs import runs_of, source_page

page_maps = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=40)


def test_consecutive_pages_of_a_segment_are_one_run() -> None:
    assert runs_of([(0, 3), (0, 4), (1, 1), (1, 2), (1, 7)]) == ((1, 3, 2), (2, 1, 2), (2, 7, 1))


def test_pages_out_of_order_are_runs_of_their_own() -> None:
    assert runs_of([(0, 2), (0, 1)]) == ((1, 2, 1), (1, 1, 1))


def test_no_pages_are_no_runs() -> None:
    assert runs_of([]) == ()


@pytest.mark.parametrize("page", [4, 1000])
def test_a_page_that_the_document_does_not_have_is_an_error(page: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        source_page(((1, 5, 3),), page)


@given(page_maps)
def test_every_page_is_found_in_its_source_again(page_map: list[tuple[int, int]]) -> None:
    runs = runs_of(page_map)
    found = [source_page(runs, page) for page in range(1, len(page_map) + 1)]
    assert found == [(segment + 1, page) for segment, page in page_map]


@given(page_maps)
def test_runs_cannot_be_joined_further(page_map: list[tuple[int, int]]) -> None:
    runs = runs_of(page_map)
    for (segment, first, count), (next_segment, next_first, _) in pairwise(runs):
        assert (segment, first + count) != (next_segment, next_first)
