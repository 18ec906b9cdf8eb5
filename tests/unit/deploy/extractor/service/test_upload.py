"""Receiving a document: any cutting of the body into chunks gives the same file."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.extractor.contract import ApiError, RequestError
from deploy.extractor.upload import Upload, receive_json, receive_multipart

BOUNDARY = "a-boundary"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
MIB = 1024 * 1024


def form(*parts: tuple[str, bytes]) -> bytes:
    body = b"".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
        + content
        + b"\r\n"
        for name, content in parts
    )
    return body + f"--{BOUNDARY}--\r\n".encode()


async def chunks_of(body: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    start = 0
    for cut in [*sorted(cuts), len(body)]:
        yield body[start:cut]
        start = max(start, cut)


def receive(body: bytes, cuts: list[int], max_bytes: int = MIB) -> tuple[Upload, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.pdf"
        upload = asyncio.run(
            receive_multipart(chunks_of(body, cuts), CONTENT_TYPE, path, max_bytes)
        )
        return upload, path.read_bytes()


@settings(max_examples=50, deadline=None)
@given(
    content=st.binary(max_size=300).map(lambda tail: b"%PDF-1.7" + tail)
    | st.just(b"%PDF-1.7\r\n--a-boundar\r\n--a\r\r\n-"),
    cuts=st.lists(st.integers(0, 700), max_size=12),
)
def test_any_cutting_into_chunks_gives_the_same_file_and_checksum(
    content: bytes, cuts: list[int]
) -> None:
    body = form(("first_page", b"3"), ("file", content), ("soft_masks", b"separate"))
    upload, stored = receive(body, [min(cut, len(body)) for cut in cuts])
    assert stored == content
    assert upload.sha256 == hashlib.sha256(content).hexdigest()
    assert upload.bytes == len(content)
    assert upload.fields == {"first_page": "3", "soft_masks": "separate"}


def test_a_document_larger_than_the_buffer_is_stored_whole() -> None:
    content = b"%PDF-1.7" + bytes(range(256)) * 4096
    body = form(("file", content))
    upload, stored = receive(body, list(range(0, len(body), 65_536)), max_bytes=2 * MIB)
    assert stored == content
    assert upload.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (form(("other", b"%PDF-1.7")), RequestError.INVALID_REQUEST),
        (form(("file", b"%PDF-1.7"), ("file", b"%PDF-1.7")), RequestError.INVALID_REQUEST),
        (form(("file", b"%PDF-1.7"), ("note", b"x" * 1025)), RequestError.INVALID_REQUEST),
        (form(("file", b"%PDF-1.7"), *[("n", b"")] * 20), RequestError.INVALID_REQUEST),
        (form(("file", b"%PDF-1.7"))[:-20], RequestError.INVALID_REQUEST),
        (form(("file", b"no header")), RequestError.NOT_A_PDF),
        (form(("file", b"%PDF-1.7" + bytes(MIB))), RequestError.TOO_LARGE),
    ],
)
def test_an_unusable_form_is_refused_with_its_reason(body: bytes, code: RequestError) -> None:
    with pytest.raises(ApiError) as refused:
        receive(body, [])
    assert refused.value.code is code


@pytest.mark.parametrize("before", [0, 1016])
def test_a_header_within_the_first_1024_bytes_is_a_pdf(before: int) -> None:
    content = b"x" * before + b"%PDF-1.7"
    assert receive(form(("file", content)), [])[1] == content


def test_json_is_stored_like_a_form(tmp_path: Path) -> None:
    content = b"%PDF-1.7 text"
    body = json.dumps({"pdf_base64": base64.b64encode(content).decode(), "first_page": 2}).encode()
    upload = asyncio.run(receive_json(chunks_of(body, [3, 9]), tmp_path / "a.pdf", 1000, 1000))
    assert (tmp_path / "a.pdf").read_bytes() == content
    assert upload.sha256 == hashlib.sha256(content).hexdigest()
    assert upload.fields == {"first_page": 2}


def test_the_stored_file_is_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    body = form(("file", b"%PDF-1.7"))
    asyncio.run(receive_multipart(chunks_of(body, []), CONTENT_TYPE, path, MIB))
    assert path.stat().st_mode & 0o777 == 0o600
