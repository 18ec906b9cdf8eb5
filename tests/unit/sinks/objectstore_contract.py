"""What every object store must do; one suite, run against each implementation.

A subclass gives the `store` and `bucket` fixtures.
"""

from __future__ import annotations

import hashlib
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sinks.objectstore import (
    BucketNotFound,
    ChecksumMismatch,
    ObjectNotFound,
    ObjectStore,
    ObjectTooLarge,
    PreconditionFailed,
    PutKind,
    StoreRejected,
)
from sinks.objectstore.probe import probe

TEXT = "text/plain"


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class ObjectStoreContract:
    racers = 4

    # ---- get, head

    def test_get_returns_what_was_put(self, store: ObjectStore, bucket: str) -> None:
        etag = store.put(bucket, "a/b.txt", b"hello", content_type=TEXT)
        found = store.get(bucket, "a/b.txt", max_bytes=5)
        assert (found.body, found.etag, found.content_type) == (b"hello", etag, TEXT)
        assert abs((datetime.now(UTC) - found.last_modified).total_seconds()) < 3600

    def test_an_empty_object_is_an_object(self, store: ObjectStore, bucket: str) -> None:
        store.put(bucket, "empty", b"", content_type=TEXT)
        assert store.get(bucket, "empty", max_bytes=0).body == b""
        assert store.head(bucket, "empty").size == 0

    @pytest.mark.parametrize(
        "key", ["sp ace/ü€😀.pdf", "plus+and&amp=%2F~'()*!,;:@$", "trailing.", ".hidden/..name"]
    )
    def test_keys_with_unusual_characters_are_kept_apart(
        self, store: ObjectStore, bucket: str, key: str
    ) -> None:
        store.put(bucket, key, b"this one", content_type=TEXT)
        assert store.get(bucket, key, max_bytes=100).body == b"this one"
        assert [item.key for item in store.list(bucket, "")] == [key]

    @pytest.mark.parametrize(
        "key", ["", "../other", "a/../../b", "a/./b", "..", "a\x00b", "a\nb", "x" * 1025, "\ud800"]
    )
    def test_keys_that_would_name_something_else_on_the_way_are_refused(
        self, store: ObjectStore, bucket: str, key: str
    ) -> None:
        with pytest.raises(StoreRejected):
            store.put(bucket, key, b"x", content_type=TEXT)
        with pytest.raises(StoreRejected):
            store.get(bucket, key, max_bytes=1)
        assert list(store.list(bucket, "")) == []

    def test_get_of_a_missing_object(self, store: ObjectStore, bucket: str) -> None:
        with pytest.raises(ObjectNotFound) as caught:
            store.get(bucket, "patient-name.pdf", max_bytes=10)
        assert caught.value.kind == "document"
        assert "patient" not in str(caught.value)

    def test_get_from_a_missing_bucket(self, store: ObjectStore) -> None:
        with pytest.raises(BucketNotFound):
            store.get("no-such-bucket-here", "key", max_bytes=10)

    def test_get_refuses_more_than_the_limit(self, store: ObjectStore, bucket: str) -> None:
        store.put(bucket, "big", b"123456", content_type=TEXT)
        with pytest.raises(ObjectTooLarge) as caught:
            store.get(bucket, "big", max_bytes=5)
        assert caught.value.limit == 5

    def test_head_tells_size_checksum_and_etag(self, store: ObjectStore, bucket: str) -> None:
        etag = store.put(bucket, "doc", b"hello", content_type="application/pdf")
        info = store.head(bucket, "doc")
        assert (info.size, info.etag, info.content_type) == (5, etag, "application/pdf")
        assert info.sha256 == sha256(b"hello")

    def test_head_of_a_missing_object(self, store: ObjectStore, bucket: str) -> None:
        with pytest.raises(ObjectNotFound):
            store.head(bucket, "missing")

    # ---- download

    def test_download_streams_to_a_private_file_and_hashes_it(
        self, store: ObjectStore, bucket: str, tmp_path: Path
    ) -> None:
        body = bytes(range(256)) * 4096
        etag = store.put(bucket, "doc", body, content_type="application/pdf")
        target = tmp_path / "doc"
        result = store.download(
            bucket, "doc", target, max_bytes=len(body), expected_sha256=sha256(body)
        )
        assert (result.sha256, result.size, result.etag) == (sha256(body), len(body), etag)
        assert target.read_bytes() == body
        assert stat.S_IMODE(target.stat().st_mode) == 0o600

    def test_download_beyond_the_limit_leaves_no_file(
        self, store: ObjectStore, bucket: str, tmp_path: Path
    ) -> None:
        store.put(bucket, "doc", b"123456", content_type=TEXT)
        with pytest.raises(ObjectTooLarge):
            store.download(bucket, "doc", tmp_path / "doc", max_bytes=5)
        assert list(tmp_path.iterdir()) == []

    def test_download_tells_of_each_piece_before_it_is_written(
        self, store: ObjectStore, bucket: str, tmp_path: Path
    ) -> None:
        size = 300_000
        store.put(bucket, "doc", bytes(size), content_type=TEXT)
        target = tmp_path / "doc"
        told = 0

        def before_write(more: int) -> None:
            nonlocal told
            assert target.stat().st_size == told
            told += more

        store.download(bucket, "doc", target, max_bytes=size, before_write=before_write)
        assert told == size

    def test_download_ends_with_what_is_raised_before_a_write_and_leaves_no_file(
        self, store: ObjectStore, bucket: str, tmp_path: Path
    ) -> None:
        class NoRoom(Exception):
            pass

        def before_write(more: int) -> None:
            raise NoRoom

        store.put(bucket, "doc", b"123456", content_type=TEXT)
        with pytest.raises(NoRoom):
            store.download(bucket, "doc", tmp_path / "doc", max_bytes=10, before_write=before_write)
        assert list(tmp_path.iterdir()) == []

    def test_download_with_another_checksum_leaves_no_file(
        self, store: ObjectStore, bucket: str, tmp_path: Path
    ) -> None:
        store.put(bucket, "doc", b"123456", content_type=TEXT)
        with pytest.raises(ChecksumMismatch):
            store.download(
                bucket, "doc", tmp_path / "doc", max_bytes=10, expected_sha256=sha256(b"other")
            )
        assert list(tmp_path.iterdir()) == []

    def test_download_of_a_missing_object_leaves_no_file(
        self, store: ObjectStore, bucket: str, tmp_path: Path
    ) -> None:
        with pytest.raises(ObjectNotFound):
            store.download(bucket, "missing", tmp_path / "doc", max_bytes=10)
        assert list(tmp_path.iterdir()) == []

    def test_download_never_replaces_a_file(
        self, store: ObjectStore, bucket: str, tmp_path: Path
    ) -> None:
        store.put(bucket, "doc", b"new", content_type=TEXT)
        taken = tmp_path / "taken"
        taken.write_bytes(b"somebody else's")
        (tmp_path / "link").symlink_to(taken)
        for name in ("taken", "link"):
            with pytest.raises(FileExistsError):
                store.download(bucket, "doc", tmp_path / name, max_bytes=10)
        assert taken.read_bytes() == b"somebody else's"

    # ---- put_if_absent

    def test_put_if_absent_creates(self, store: ObjectStore, bucket: str) -> None:
        outcome = store.put_if_absent(bucket, "new", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.CREATED
        assert not outcome.resolved_ambiguity
        assert store.get(bucket, "new", max_bytes=10).etag == outcome.etag

    def test_put_if_absent_of_the_same_bytes_is_identical(
        self, store: ObjectStore, bucket: str
    ) -> None:
        first = store.put_if_absent(bucket, "new", b"mine", content_type=TEXT)
        second = store.put_if_absent(bucket, "new", b"mine", content_type=TEXT)
        assert (second.kind, second.etag) == (PutKind.IDENTICAL, first.etag)

    @pytest.mark.parametrize("theirs", [b"their", b"yours, and longer"])
    def test_put_if_absent_never_overwrites(
        self, store: ObjectStore, bucket: str, theirs: bytes
    ) -> None:
        first = store.put_if_absent(bucket, "new", theirs, content_type=TEXT)
        second = store.put_if_absent(bucket, "new", b"mine!", content_type=TEXT)
        assert (second.kind, second.etag) == (PutKind.CONFLICT, first.etag)
        assert store.get(bucket, "new", max_bytes=100).body == theirs

    def test_put_if_absent_after_a_delete_creates_again(
        self, store: ObjectStore, bucket: str
    ) -> None:
        store.put_if_absent(bucket, "new", b"one", content_type=TEXT)
        store.delete(bucket, "new")
        again = store.put_if_absent(bucket, "new", b"two", content_type=TEXT)
        assert again.kind is PutKind.CREATED

    def test_put_if_absent_takes_a_file(
        self, store: ObjectStore, bucket: str, tmp_path: Path
    ) -> None:
        body = b"%PDF-1.7" + bytes(1_000_000)
        source = tmp_path / "page.png"
        source.write_bytes(body)
        created = store.put_if_absent(
            bucket, "image", source, content_type="image/png", sha256=sha256(body)
        )
        again = store.put_if_absent(bucket, "image", source, content_type="image/png")
        assert (created.kind, again.kind) == (PutKind.CREATED, PutKind.IDENTICAL)
        assert store.get(bucket, "image", max_bytes=len(body)).body == body
        source.write_bytes(body + b"!")
        other = store.put_if_absent(bucket, "image", source, content_type="image/png")
        assert other.kind is PutKind.CONFLICT

    # ---- replace_if_match

    def test_replace_of_the_version_that_was_read(self, store: ObjectStore, bucket: str) -> None:
        first = store.put_if_absent(bucket, "record", b"1", content_type=TEXT).etag
        second = store.replace_if_match(bucket, "record", b"2", etag=first, content_type=TEXT)
        third = store.replace_if_match(bucket, "record", b"3", etag=second, content_type=TEXT)
        found = store.get(bucket, "record", max_bytes=10)
        assert (found.body, found.etag) == (b"3", third)

    def test_replace_of_a_version_that_is_gone_changes_nothing(
        self, store: ObjectStore, bucket: str
    ) -> None:
        first = store.put_if_absent(bucket, "record", b"1", content_type=TEXT).etag
        store.replace_if_match(bucket, "record", b"theirs", etag=first, content_type=TEXT)
        with pytest.raises(PreconditionFailed):
            store.replace_if_match(bucket, "record", b"mine", etag=first, content_type=TEXT)
        assert store.get(bucket, "record", max_bytes=10).body == b"theirs"

    def test_a_repeated_replace_finds_its_own_write(self, store: ObjectStore, bucket: str) -> None:
        first = store.put_if_absent(bucket, "record", b"1", content_type=TEXT).etag
        second = store.replace_if_match(bucket, "record", b"2", etag=first, content_type=TEXT)
        again = store.replace_if_match(bucket, "record", b"2", etag=first, content_type=TEXT)
        assert again == second

    def test_replace_of_a_missing_object_creates_nothing(
        self, store: ObjectStore, bucket: str
    ) -> None:
        etag = store.put(bucket, "other", b"1", content_type=TEXT)
        with pytest.raises(ObjectNotFound):
            store.replace_if_match(bucket, "record", b"2", etag=etag, content_type=TEXT)
        assert [item.key for item in store.list(bucket, "")] == ["other"]

    # ---- put, delete, list

    def test_put_overwrites(self, store: ObjectStore, bucket: str, tmp_path: Path) -> None:
        source = tmp_path / "upload"
        source.write_bytes(b"second")
        store.put(bucket, "upload", b"first", content_type=TEXT)
        store.put(bucket, "upload", source, content_type=TEXT)
        assert store.get(bucket, "upload", max_bytes=10).body == b"second"

    def test_a_checksum_that_cannot_be_one_is_refused(
        self, store: ObjectStore, bucket: str
    ) -> None:
        with pytest.raises(StoreRejected):
            store.put(bucket, "x", b"first", content_type=TEXT, sha256="short")

    def test_delete_is_idempotent(self, store: ObjectStore, bucket: str) -> None:
        store.put(bucket, "gone", b"x", content_type=TEXT)
        store.delete(bucket, "gone")
        store.delete(bucket, "gone")
        with pytest.raises(ObjectNotFound):
            store.head(bucket, "gone")

    def test_delete_many_ignores_what_is_missing(self, store: ObjectStore, bucket: str) -> None:
        for key in ("p/1", "p/2", "q/1"):
            store.put(bucket, key, b"x", content_type=TEXT)
        store.delete_many(bucket, iter(["p/1", "p/2", "p/3"]))
        store.delete_many(bucket, [])
        assert [item.key for item in store.list(bucket, "")] == ["q/1"]

    def test_list_is_in_key_order_within_the_prefix(self, store: ObjectStore, bucket: str) -> None:
        for number in (5, 3, 1, 4, 2):
            store.put(bucket, f"p/{number}", b"x" * number, content_type=TEXT)
        store.put(bucket, "q/1", b"other", content_type=TEXT)
        listed = list(store.list(bucket, "p/"))
        assert [(item.key, item.size) for item in listed] == [(f"p/{n}", n) for n in range(1, 6)]
        assert listed[0].etag == store.head(bucket, "p/1").etag
        after = store.list(bucket, "p/", start_after="p/3")
        assert [item.key for item in after] == ["p/4", "p/5"]
        assert list(store.list(bucket, "none/")) == []

    def test_buckets(self, store: ObjectStore, bucket: str) -> None:
        assert store.bucket_exists(bucket)
        assert not store.bucket_exists("no-such-bucket-here")
        store.ensure_bucket(bucket)

    def test_the_probe_accepts_the_store_and_cleans_up(
        self, store: ObjectStore, bucket: str
    ) -> None:
        probe(store, bucket, racers=self.racers)
        assert list(store.list(bucket, "")) == []
