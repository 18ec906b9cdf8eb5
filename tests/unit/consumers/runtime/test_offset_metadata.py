"""Done offsets in commit metadata: what is written is read back, and nothing else is believed."""

from __future__ import annotations

import base64
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.runtime.offset_metadata import BROKER_LIMIT, MetadataVerdict, decode, encode

BASES = st.integers(0, 2**62)


@given(base=BASES, gaps=st.lists(st.integers(1, 50), max_size=300))
def test_what_was_written_is_read_back(base: int, gaps: list[int]) -> None:
    done = set()
    offset = base
    for gap in gaps:
        offset += gap
        done.add(offset)
    text = encode(base, done)
    assert text is not None
    assert len(text.encode()) <= BROKER_LIMIT
    assert decode(base, text)[0] == done


def test_nothing_done_ahead_is_empty_metadata() -> None:
    assert encode(7, set()) == ""
    assert decode(7, "") == (set(), MetadataVerdict.EMPTY)
    assert decode(7, None) == (set(), MetadataVerdict.EMPTY)


def test_ten_thousand_done_behind_one_slow_event_fit_easily() -> None:
    text = encode(0, set(range(1, 10_000)))
    assert text is not None
    assert len(text) < 200


def test_the_worst_pattern_of_a_full_window_still_fits() -> None:
    pattern = random.Random(1)
    text = encode(0, {offset for offset in range(1, 10_000) if pattern.random() < 0.5})
    assert text is not None
    assert len(text) <= BROKER_LIMIT


def test_what_does_not_fit_is_not_written_at_all() -> None:
    pattern = random.Random(1)
    assert encode(0, {o for o in range(1, 100_000) if pattern.random() < 0.5}) is None
    assert encode(0, {1, 10**12}) is None  # would need gigabytes before it is compressed


@pytest.mark.parametrize("text", ["note to self", '{"v":1}', "bx2.AAAA", "\x00"])
def test_metadata_of_others_is_ignored(text: str) -> None:
    assert decode(5, text) == (set(), MetadataVerdict.FOREIGN)


def test_metadata_of_another_offset_is_ignored() -> None:
    text = encode(10, {11, 12})
    assert decode(11, text) == (set(), MetadataVerdict.OTHER_BASE)


@given(where=st.integers(0, 10_000), flip=st.integers(1, 127))
def test_no_damaged_character_is_believed(where: int, flip: int) -> None:
    done = {12, 15, 40}
    text = encode(10, done)
    assert text is not None
    index = where % len(text)
    damaged = text[:index] + chr(ord(text[index]) ^ flip) + text[index + 1 :]
    restored, verdict = decode(10, damaged)
    # Base64 has spare bits in its last group: such a change alters nothing and may pass.
    assert restored == (done if verdict is MetadataVerdict.RESTORED else set())


@given(cut=st.integers(4, 26))
def test_cut_metadata_is_corrupt(cut: int) -> None:
    text = encode(10, {12, 15, 40})
    assert text is not None
    assert decode(10, text[:cut])[1] is MetadataVerdict.CORRUPT


def test_a_bomb_is_not_inflated() -> None:
    bomb = "bx1." + base64.urlsafe_b64encode(zlib.compress(b"\xff" * 3_000_000, 9)).decode()
    assert len(bomb) <= BROKER_LIMIT
    assert decode(10, bomb) == (set(), MetadataVerdict.CORRUPT)


@given(text=st.text(max_size=200))
def test_no_text_whatever_raises(text: str) -> None:
    assert decode(3, text)[0] == set()
    decode(3, "bx1." + text)
