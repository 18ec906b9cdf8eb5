from __future__ import annotations

import base64
import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest

from consumers.providers.errors import CallFailed
from consumers.providers.protocol import Document
from consumers.providers.uploads import READ_BYTES, Upload, json_base64, multipart, raw


def document(path: Path, content: bytes) -> Document:
    path.write_bytes(content)
    return Document(path, hashlib.sha256(content).hexdigest(), len(content), 1)


def sent(upload: Upload) -> bytes:
    return b"".join(upload.chunks())


@pytest.mark.parametrize("size", [0, 1, 2, 3, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1])
@pytest.mark.parametrize("form", [multipart, json_base64, raw])
def test_the_announced_length_is_the_length_sent(tmp_path: Path, form: object, size: int) -> None:
    assert callable(form)
    upload = form(document(tmp_path / "d", bytes(size)))
    assert len(sent(upload)) == upload.length


def test_json_is_canonical_and_holds_the_document_as_base64(tmp_path: Path) -> None:
    content = bytes(range(256)) * 999
    body = sent(json_base64(document(tmp_path / "d", content), fields=[("z", "1"), ("a", 'q"')]))
    decoded = json.loads(body)
    assert base64.b64decode(decoded["pdf"]) == content
    canonical = json.dumps(decoded, sort_keys=True, separators=(",", ":")) + "\n"
    assert body == canonical.encode()


def test_the_same_document_and_fields_give_the_same_bytes(tmp_path: Path) -> None:
    one = multipart(document(tmp_path / "a", b"x"), fields=[("k", "v")])
    two = multipart(document(tmp_path / "b", b"x"), fields=[("k", "v")])
    assert (sent(one), one.content_type) == (sent(two), two.content_type)


def test_the_local_file_name_is_not_sent(tmp_path: Path) -> None:
    assert b"novak" not in sent(multipart(document(tmp_path / "novak.pdf", b"x")))


def test_a_field_cannot_add_headers_to_its_part(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        multipart(document(tmp_path / "d", b"x"), fields=[("k", "v\r\nX: y")])


def test_a_file_that_changed_its_length_is_not_sent_at_all(tmp_path: Path) -> None:
    changed = document(tmp_path / "d", b"12345")
    changed.path.write_bytes(b"123")
    with pytest.raises(CallFailed):
        multipart(changed).chunks()


def test_a_file_that_is_gone_is_not_an_ambiguous_submit(tmp_path: Path) -> None:
    gone = document(tmp_path / "d", b"12345")
    gone.path.unlink()
    with pytest.raises(CallFailed) as caught:
        multipart(gone).chunks()
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("form", [multipart, json_base64])
def test_a_large_document_is_never_in_memory_as_a_whole(tmp_path: Path, form: object) -> None:
    assert callable(form)
    size = 50 * 1024 * 1024
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(size)
    upload = form(Document(path, "0" * 64, size, 1))
    tracemalloc.start()
    total = sum(len(chunk) for chunk in upload.chunks())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == upload.length
    assert peak < 2 * 1024 * 1024
