"""Encoding beside decoding: how much is in memory, whose problem an error is, who frees what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from deploy.extractor.engine.encoder import Encoder, Encoding
from deploy.extractor.engine.encoding import DecodedImage
from deploy.extractor.engine.model import BadImage, ExtractedImage, LimitExceeded

_LARGE, _SMALL = 1 << 20, 100
_WAIT_SECONDS = 30.0
_A_MOMENT_SECONDS = 0.05


def image(encode: Callable[[], bytes], size: int = _LARGE) -> DecodedImage:
    """Of so many bytes in memory, and as many pixels."""
    return DecodedImage(encode, size, "image/png", size, 1)


def written(decoded: DecodedImage, content: bytes) -> ExtractedImage:
    return ExtractedImage(
        1, 1, Path(content.decode()), "image/png", decoded.width, 1, "", len(content)
    )


def refused(_decoded: DecodedImage, _content: bytes) -> ExtractedImage:
    raise LimitExceeded("bytes")


def name_of(encoding: Encoding) -> str:
    return encoding.result().file.name


def test_the_caller_goes_on_while_a_large_image_is_encoded() -> None:
    may_end = threading.Event()

    def slow() -> bytes:
        assert may_end.wait(_WAIT_SECONDS)
        return b"slow"

    with closing(Encoder(10 * _LARGE)) as encoder:
        first = encoder.start(image(slow), written)
        small = encoder.start(image(lambda: b"small", _SMALL), written)
        assert name_of(small) == "small"
        may_end.set()
        assert name_of(first) == "slow"


def test_two_images_at_most_are_held() -> None:
    may_end, begun = threading.Event(), threading.Event()

    def slow() -> bytes:
        assert may_end.wait(_WAIT_SECONDS)
        return b"slow"

    def next_one() -> bytes:
        begun.set()
        return b"next"

    with closing(Encoder(10 * _LARGE)) as encoder:
        encoder.start(image(slow), written)
        caller = threading.Thread(target=encoder.start, args=(image(next_one), written))
        caller.start()
        assert not begun.wait(_A_MOMENT_SECONDS)
        may_end.set()
        assert begun.wait(_WAIT_SECONDS)
        caller.join()


@pytest.mark.parametrize(("pixels", "waits"), [(3 * _LARGE, False), (3 * _LARGE + 1, True)])
def test_two_images_together_have_no_more_pixels_than_one_may_have(
    pixels: int, waits: bool
) -> None:
    may_end = threading.Event()

    def slow() -> bytes:
        assert may_end.wait(_WAIT_SECONDS)
        return b"slow"

    with closing(Encoder(4 * _LARGE)) as encoder:
        encoder.start(image(slow), written)
        decoder = threading.Thread(target=encoder.make_room, args=(pixels,))
        decoder.start()
        decoder.join(_A_MOMENT_SECONDS if waits else _WAIT_SECONDS)
        assert decoder.is_alive() == waits
        may_end.set()
        decoder.join()


@pytest.mark.parametrize("size", [_SMALL, _LARGE])
@pytest.mark.parametrize(
    ("error", "code"), [(MemoryError, "out_of_memory"), (ValueError, "undecodable")]
)
def test_what_cannot_be_encoded_is_that_images_problem(
    size: int, error: type[Exception], code: str
) -> None:
    def broken() -> bytes:
        raise error

    with closing(Encoder(10 * _LARGE)) as encoder:
        bad = encoder.start(image(broken, size), written)
        good = encoder.start(image(lambda: b"good", size), written)
        assert name_of(good) == "good"
        with pytest.raises(BadImage) as raised:
            bad.result()
    assert raised.value.code == code


def test_what_cannot_be_written_ends_the_document_at_the_next_image() -> None:
    with closing(Encoder(10 * _LARGE)) as encoder:
        encoder.start(image(lambda: b"x"), refused)
        encoder.make_room(100 * _LARGE)
        with pytest.raises(LimitExceeded):
            encoder.start(image(lambda: b"never"), written)


def test_what_cannot_be_written_is_told_with_the_last_image_too() -> None:
    with closing(Encoder(10 * _LARGE)) as encoder:
        last = encoder.start(image(lambda: b"x"), refused)
        with pytest.raises(LimitExceeded):
            last.result()


def test_the_decoding_thread_frees_what_was_decoded() -> None:
    freed_by: list[int] = []

    class Bitmap:
        def __del__(self) -> None:
            freed_by.append(threading.get_ident())

    def encode(_bitmap: Bitmap) -> bytes:
        return b"x"

    def fail(_bitmap: Bitmap) -> bytes:
        raise ValueError

    with closing(Encoder(10 * _LARGE)) as encoder:
        for _ in range(200):
            encoder.start(image(partial(encode, Bitmap())), written)
            encoder.start(image(partial(fail, Bitmap())), written)
            encoder.start(image(partial(encode, Bitmap()), _SMALL), written)
        assert len(freed_by) >= 599
    assert set(freed_by) == {threading.get_ident()}


def test_images_are_encoded_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with closing(Encoder(10 * _LARGE)) as encoder:
        assert name_of(encoder.start(image(lambda: b"here"), written)) == "here"
