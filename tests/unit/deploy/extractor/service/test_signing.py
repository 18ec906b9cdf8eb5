"""Tokens of file URLs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.extractor.signing import BadToken, ExpiredToken, sign, verify

KEY = b"k" * 32
JOB = "0123456789abcdef" * 2


def test_a_token_names_its_job_and_image_until_it_expires() -> None:
    token = sign(KEY, JOB, 7, expires_at=1000)
    assert verify(KEY, token, now=999.9) == (JOB, 7)
    with pytest.raises(ExpiredToken):
        verify(KEY, token, now=1000)


def test_a_token_of_another_key_is_bad_even_when_expired() -> None:
    with pytest.raises(BadToken):
        verify(b"x" * 32, sign(KEY, JOB, 7, expires_at=1000), now=2000)


def test_a_token_with_any_character_changed_is_bad() -> None:
    token = sign(KEY, JOB, 7, expires_at=1000)
    for place, old in enumerate(token):
        changed = token[:place] + ("A" if old != "A" else "B") + token[place + 1 :]
        with pytest.raises(BadToken):
            verify(KEY, changed, now=0)


@given(st.text(max_size=120))
def test_no_text_is_a_token_or_an_unexpected_exception(text: str) -> None:
    with pytest.raises(BadToken):
        verify(KEY, text, now=0)
