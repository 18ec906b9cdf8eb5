"""What the S3 client makes of servers that fail, lie, stall or redirect: on real sockets."""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sinks.objectstore import (
    AccessDenied,
    AmbiguousWrite,
    BucketNotFound,
    ChecksumMismatch,
    ObjectNotFound,
    ObjectTooLarge,
    PreconditionFailed,
    PutKind,
    S3Settings,
    S3Store,
    StoreError,
    StoreRejected,
    StoreThrottled,
    StoreUnavailable,
)
from sinks.objectstore.conditional import MAX_ATTEMPTS
from tests.unit.sinks import lying_s3
from tests.unit.sinks.lying_s3 import (
    LyingS3,
    announces,
    cuts_body_short,
    drops_connection,
    error_document,
    never_ends,
    says,
    stays_silent,
    trickles,
)

TEXT = "text/plain"
SECRET = "canary-secret-key"
TOKEN = "canary-session-token"


@pytest.fixture
def server() -> Iterator[LyingS3]:
    with LyingS3() as server:
        server.buckets.add("bucket")
        yield server


@pytest.fixture
def observed() -> list[tuple[str, str, float, int]]:
    return []


@pytest.fixture
def store(server: LyingS3, observed: list[tuple[str, str, float, int]]) -> Iterator[S3Store]:
    settings = S3Settings(server.endpoint_url, "access", SECRET, session_token=TOKEN)
    store = S3Store(
        settings, observe=lambda *seen: observed.append(seen), sleep=lambda seconds: None
    )
    yield store
    store.close()


def impatient(server: LyingS3) -> S3Store:
    settings = S3Settings(
        server.endpoint_url, "access", SECRET, read_timeout=0.3, transfer_timeout=0.5
    )
    return S3Store(settings, sleep=lambda seconds: None)


def told_with(error: BaseException) -> list[str]:
    """Messages of the error and of those a traceback would show with it."""
    summary: traceback.TracebackException | None = traceback.TracebackException.from_exception(
        error
    )
    texts: list[str] = []
    while summary is not None:
        texts += summary.format_exception_only()
        shown_context = None if summary.__suppress_context__ else summary.__context__
        summary = summary.__cause__ or shown_context
    return texts


LOST_ANSWERS = {
    "stored, then 503": says(503, "ServiceUnavailable", after_effect=True),
    "stored, then 503 SlowDown": says(503, "SlowDown", after_effect=True),
    "stored, then 500 without a body": says(500, after_effect=True),
    "stored, then 200 with InternalError": says(200, "InternalError", after_effect=True),
    "stored, then the connection dropped": drops_connection(after_effect=True),
}


class TestCreateWhoseAnswerIsLost:
    @pytest.mark.parametrize("lie", LOST_ANSWERS.values(), ids=LOST_ANSWERS.keys())
    def test_is_found_by_reading_and_not_written_again(
        self, server: LyingS3, store: S3Store, lie: lying_s3.Lie
    ) -> None:
        server.lie("PUT", lie)
        outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.IDENTICAL
        assert outcome.resolved_ambiguity
        assert outcome.label == "ambiguous_resolved"
        assert outcome.etag == server.objects["bucket", "key"].etag
        assert server.count("PUT") == 1

    def test_by_a_time_out_is_found_by_reading(self, server: LyingS3) -> None:
        over = threading.Event()
        server.lie("PUT", stays_silent(over, after_effect=True))
        try:
            outcome = impatient(server).put_if_absent("bucket", "k", b"mine", content_type=TEXT)
        finally:
            over.set()
        assert outcome.resolved_ambiguity
        assert server.count("PUT") == 1

    @pytest.mark.parametrize(
        ("lie", "failure"),
        [
            (drops_connection(), StoreUnavailable),
            (says(500, "InternalError"), StoreUnavailable),
            (says(200, "InternalError"), StoreUnavailable),
            (says(503, "SlowDown"), StoreThrottled),
            (says(429), StoreThrottled),
        ],
    )
    def test_and_which_did_nothing_is_left_to_the_caller_to_retry(
        self, server: LyingS3, store: S3Store, lie: lying_s3.Lie, failure: type[StoreError]
    ) -> None:
        server.lie("PUT", lie)
        with pytest.raises(failure) as caught:
            store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert caught.value.kind == "systemic"
        assert server.count("PUT") == 1
        outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.CREATED

    def test_while_another_writer_won_is_a_conflict(self, server: LyingS3, store: S3Store) -> None:
        server.store("bucket", "key", b"theirs", {})
        server.lie("PUT", drops_connection())
        outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.CONFLICT
        assert server.objects["bucket", "key"].body == b"theirs"

    def test_and_cannot_be_read_back_is_ambiguous_until_the_next_try(
        self, server: LyingS3, store: S3Store
    ) -> None:
        server.lie("PUT", says(503, after_effect=True))
        server.lie("HEAD", says(503))
        with pytest.raises(AmbiguousWrite) as caught:
            store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert caught.value.kind == "systemic"
        again = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert again.kind is PutKind.IDENTICAL

    def test_of_a_file_is_found_by_its_checksum(
        self, server: LyingS3, store: S3Store, tmp_path: Path
    ) -> None:
        image = tmp_path / "image"
        image.write_bytes(bytes(500_000))
        server.lie("PUT", drops_connection(after_effect=True))
        outcome = store.put_if_absent("bucket", "image", image, content_type="image/png")
        assert outcome.kind is PutKind.IDENTICAL


class TestCreateThatIsTold409:
    def test_tries_again_until_it_wins(self, server: LyingS3, store: S3Store) -> None:
        server.lie("PUT", *[says(409, "ConditionalRequestConflict")] * 3)
        outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.CREATED
        assert server.count("PUT") == 4

    @pytest.mark.parametrize("lie", [says(409), says(409, "OperationAborted")])
    def test_without_the_usual_code_as_well(
        self, server: LyingS3, store: S3Store, lie: lying_s3.Lie
    ) -> None:
        server.lie("PUT", lie)
        outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.CREATED

    def test_then_412_finds_the_winner(self, server: LyingS3, store: S3Store) -> None:
        server.lie("PUT", says(409))
        server.lie("HEAD", says(404))  # the winner's write is not visible yet
        server.store("bucket", "key", b"theirs", {})
        outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.CONFLICT
        assert server.count("PUT") == 2

    def test_because_another_wrote_the_same_is_identical(
        self, server: LyingS3, store: S3Store
    ) -> None:
        server.store("bucket", "key", b"mine", {})
        server.lie("PUT", says(409))
        outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.IDENTICAL

    def test_for_ever_gives_up_and_never_takes_it_for_success(
        self, server: LyingS3, store: S3Store
    ) -> None:
        server.lie("PUT", *[says(409)] * 50)
        with pytest.raises(StoreUnavailable) as caught:
            store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert caught.value.kind == "attempt"
        assert server.count("PUT") == MAX_ATTEMPTS


class TestCreateThatIsTold412:
    @pytest.mark.parametrize(
        "lie",
        [
            says(412, "PreconditionFailed"),
            says(412),
            says(200, "PreconditionFailed"),
            says(412, body=b"<html>proxy</html>"),
        ],
        ids=["code", "empty body", "error inside a 200", "foreign body"],
    )
    def test_in_any_form_compares_what_is_stored(
        self, server: LyingS3, store: S3Store, lie: lying_s3.Lie
    ) -> None:
        server.store("bucket", "same", b"mine", {})
        server.store("bucket", "other", b"else", {})
        server.lie("PUT", lie, lie)
        same = store.put_if_absent("bucket", "same", b"mine", content_type=TEXT)
        other = store.put_if_absent("bucket", "other", b"mine", content_type=TEXT)
        assert (same.kind, other.kind) == (PutKind.IDENTICAL, PutKind.CONFLICT)

    def test_about_nothing_tries_again(self, server: LyingS3, store: S3Store) -> None:
        server.lie("PUT", says(412, "PreconditionFailed"))
        outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert outcome.kind is PutKind.CREATED

    def test_about_nothing_for_ever_gives_up(self, server: LyingS3, store: S3Store) -> None:
        server.lie("PUT", *[says(412)] * 50)
        with pytest.raises(StoreUnavailable):
            store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        assert server.count("PUT") == MAX_ATTEMPTS


class TestReplace:
    @pytest.mark.parametrize("lie", LOST_ANSWERS.values(), ids=LOST_ANSWERS.keys())
    def test_whose_answer_is_lost_is_found_by_reading(
        self, server: LyingS3, store: S3Store, lie: lying_s3.Lie
    ) -> None:
        etag = store.put("bucket", "key", b"1", content_type=TEXT)
        server.lie("PUT", lie)
        second = store.replace_if_match("bucket", "key", b"2", etag=etag, content_type=TEXT)
        assert second == server.objects["bucket", "key"].etag
        assert server.count("PUT") == 2

    def test_that_did_nothing_is_left_to_the_caller_to_retry(
        self, server: LyingS3, store: S3Store
    ) -> None:
        etag = store.put("bucket", "key", b"1", content_type=TEXT)
        server.lie("PUT", drops_connection())
        with pytest.raises(StoreUnavailable):
            store.replace_if_match("bucket", "key", b"2", etag=etag, content_type=TEXT)
        store.replace_if_match("bucket", "key", b"2", etag=etag, content_type=TEXT)
        assert server.objects["bucket", "key"].body == b"2"

    def test_whose_answer_is_lost_while_another_replaced_it_too_fails(
        self, server: LyingS3, store: S3Store
    ) -> None:
        etag = store.put("bucket", "key", b"1", content_type=TEXT)
        server.store("bucket", "key", b"theirs", {})
        server.lie("PUT", drops_connection())
        with pytest.raises(PreconditionFailed):
            store.replace_if_match("bucket", "key", b"mine", etag=etag, content_type=TEXT)

    def test_told_409_tries_again(self, server: LyingS3, store: S3Store) -> None:
        etag = store.put("bucket", "key", b"1", content_type=TEXT)
        server.lie("PUT", says(409, "ConditionalRequestConflict"), says(409))
        store.replace_if_match("bucket", "key", b"2", etag=etag, content_type=TEXT)
        assert server.objects["bucket", "key"].body == b"2"

    def test_told_412_for_a_missing_object_reports_it_missing(
        self, server: LyingS3, store: S3Store
    ) -> None:
        server.lie("PUT", says(412))
        with pytest.raises(ObjectNotFound):
            store.replace_if_match("bucket", "key", b"2", etag="abc", content_type=TEXT)


class TestRead:
    def test_of_a_body_cut_short_is_worth_a_retry(
        self, server: LyingS3, store: S3Store, tmp_path: Path
    ) -> None:
        server.store("bucket", "key", b"x" * 100_000, {})
        server.lie("GET", cuts_body_short(1), cuts_body_short(99_999))
        with pytest.raises(StoreUnavailable):
            store.get("bucket", "key", max_bytes=1 << 20)
        with pytest.raises(StoreUnavailable):
            store.download("bucket", "key", tmp_path / "file", max_bytes=1 << 20)
        assert list(tmp_path.iterdir()) == []
        assert len(store.get("bucket", "key", max_bytes=1 << 20).body) == 100_000

    def test_with_a_too_small_content_length_is_caught_by_the_checksum(
        self, server: LyingS3, store: S3Store, tmp_path: Path
    ) -> None:
        body = b"x" * 1000
        server.store("bucket", "key", body, {})
        server.lie("GET", announces(10))
        with pytest.raises(ChecksumMismatch):
            store.download(
                "bucket",
                "key",
                tmp_path / "file",
                max_bytes=1 << 20,
                expected_sha256=hashlib.sha256(body).hexdigest(),
            )
        # What was left over on the connection is not the beginning of the next answer.
        assert store.get("bucket", "key", max_bytes=1 << 20).body == body

    def test_of_an_announced_size_over_the_limit_reads_nothing(
        self, server: LyingS3, store: S3Store, tmp_path: Path
    ) -> None:
        server.store("bucket", "key", b"small", {})
        server.lie("GET", announces(10**12))
        with pytest.raises(ObjectTooLarge):
            store.download("bucket", "key", tmp_path / "file", max_bytes=1000)

    def test_of_an_unannounced_endless_body_stops_at_the_limit(
        self, server: LyingS3, store: S3Store, tmp_path: Path
    ) -> None:
        sent = [0]
        server.store("bucket", "key", b"", {})
        server.lie("GET", never_ends(sent))
        with pytest.raises(ObjectTooLarge):
            store.download("bucket", "key", tmp_path / "file", max_bytes=1_000_000)
        assert list(tmp_path.iterdir()) == []
        assert sent[0] < 1 << 28

    def test_of_a_silent_server_times_out(self, server: LyingS3) -> None:
        over = threading.Event()
        server.store("bucket", "key", b"x", {})
        server.lie("GET", stays_silent(over))
        try:
            with pytest.raises(StoreUnavailable, match="no answer in time"):
                impatient(server).get("bucket", "key", max_bytes=10)
        finally:
            over.set()

    def test_of_a_trickling_body_ends_although_no_single_wait_is_long(
        self, server: LyingS3, tmp_path: Path
    ) -> None:
        over = threading.Event()
        server.store("bucket", "key", b"x", {})
        server.lie("GET", trickles(over))
        try:
            with pytest.raises(StoreUnavailable, match="too long"):
                impatient(server).download("bucket", "key", tmp_path / "f", max_bytes=1 << 30)
        finally:
            over.set()
        assert list(tmp_path.iterdir()) == []

    def test_of_a_page_that_is_no_s3_answer_is_not_taken_for_a_missing_object(
        self, server: LyingS3, store: S3Store
    ) -> None:
        server.lie("GET", says(404, body=b"<html>nginx</html>"))
        with pytest.raises(StoreUnavailable, match="endpoint_url"):
            store.get("bucket", "key", max_bytes=10)

    def test_makes_one_attempt(self, server: LyingS3, store: S3Store) -> None:
        server.store("bucket", "key", b"x", {})
        server.lie("GET", says(503), drops_connection())
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                store.get("bucket", "key", max_bytes=10)
        assert server.count("GET") == 2

    def test_of_a_dead_server(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
            port = taken.getsockname()[1]
            store = S3Store(S3Settings(f"http://127.0.0.1:{port}", "access", SECRET))
            with pytest.raises(StoreUnavailable, match="no connection"):
                store.get("bucket", "key", max_bytes=10)
            with pytest.raises(StoreUnavailable, match="no connection"):
                store.put_if_absent("bucket", "key", b"x", content_type=TEXT)


class TestRefusal:
    @pytest.mark.parametrize(
        ("status", "code", "credentials_rejected"),
        [
            (403, "AccessDenied", False),
            (403, "InvalidAccessKeyId", True),
            (403, "SignatureDoesNotMatch", True),
            (403, "RequestTimeTooSkewed", True),
            (400, "ExpiredToken", True),
            (401, "", True),
        ],
    )
    def test_of_access_says_whether_the_credentials_are_to_blame(
        self,
        server: LyingS3,
        store: S3Store,
        status: int,
        code: str,
        credentials_rejected: bool,
    ) -> None:
        server.lie("GET", says(status, code))
        with pytest.raises(AccessDenied) as caught:
            store.get("bucket", "key", max_bytes=10)
        assert caught.value.kind == "systemic"
        assert caught.value.credentials_rejected is credentials_rejected

    def test_with_a_retry_after_hands_it_on(self, server: LyingS3, store: S3Store) -> None:
        server.lie("GET", says(503, "SlowDown", headers={"Retry-After": "7"}))
        with pytest.raises(StoreThrottled) as caught:
            store.get("bucket", "key", max_bytes=10)
        assert caught.value.retry_after == 7.0

    def test_of_a_missing_bucket_blames_the_event_when_reading_and_us_when_writing(
        self, store: S3Store
    ) -> None:
        with pytest.raises(BucketNotFound) as reading:
            store.get("missing", "key", max_bytes=10)
        with pytest.raises(BucketNotFound) as writing:
            store.put_if_absent("missing", "key", b"x", content_type=TEXT)
        assert (reading.value.kind, writing.value.kind) == ("document", "systemic")

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_by_redirect_is_not_followed_and_nothing_is_sent_to_the_other_host(
        self, server: LyingS3, store: S3Store, status: int, tmp_path: Path
    ) -> None:
        with LyingS3() as elsewhere:
            elsewhere.buckets.add("bucket")
            elsewhere.store("bucket", "key", b"stolen", {})
            for method in ("GET", "HEAD", "PUT", "DELETE", "POST"):
                location = {"Location": f"{elsewhere.endpoint_url}/bucket/key"}
                server.lie(method, *[says(status, headers=location)] * 2)
            calls: list[Callable[[], object]] = [
                lambda: store.get("bucket", "key", max_bytes=10),
                lambda: store.download("bucket", "key", tmp_path / "f", max_bytes=10),
                lambda: store.head("bucket", "key"),
                lambda: store.put_if_absent("bucket", "key", b"x", content_type=TEXT),
                lambda: store.put("bucket", "key", b"x", content_type=TEXT),
                lambda: store.delete("bucket", "key"),
                lambda: store.delete_many("bucket", ["key"]),
                lambda: store.bucket_exists("bucket"),
            ]
            for call in calls:
                with pytest.raises(StoreError):
                    call()
            server.lie("GET", says(status, headers=location))
            with pytest.raises(StoreError):
                list(store.list("bucket", ""))
            assert elsewhere.requests == []

    def test_of_a_call_the_store_lacks(self, server: LyingS3, store: S3Store) -> None:
        server.lie("PUT", says(501, "NotImplemented"))
        with pytest.raises(StoreRejected) as caught:
            store.put_if_absent("bucket", "key", b"x", content_type=TEXT)
        assert caught.value.kind == "systemic"
        assert server.count("PUT") == 1

    def test_of_everyday_calls_is_sorted_the_same_way(
        self, server: LyingS3, store: S3Store
    ) -> None:
        server.lie("GET", says(503, "SlowDown", headers={"Content-Type": "application/xml"}))
        with pytest.raises(StoreThrottled):
            list(store.list("bucket", ""))
        server.lie("GET", drops_connection())
        with pytest.raises(StoreUnavailable):
            list(store.list("bucket", ""))
        server.lie("HEAD", says(403))
        with pytest.raises(AccessDenied):
            store.bucket_exists("bucket")
        assert server.count("GET") == 2


class TestConnections:
    def test_are_used_again_whatever_the_answers_were(
        self, server: LyingS3, store: S3Store
    ) -> None:
        server.store("bucket", "key", b"hello", {})
        for _ in range(5):
            store.get("bucket", "key", max_bytes=10)
            store.head("bucket", "key")
            store.put_if_absent("bucket", "key", b"other", content_type=TEXT)
            store.bucket_exists("bucket")
            with pytest.raises(ObjectNotFound):
                store.get("bucket", "missing", max_bytes=10)
            with pytest.raises(ObjectNotFound):
                store.head("bucket", "missing")
        assert server.connections == 2  # one of them the minio client's, for `bucket_exists`

    def test_virtual_host_style_puts_the_bucket_in_the_host(
        self, server: LyingS3, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolve = socket.getaddrinfo

        def loopback(host: str, *args: Any, **options: Any) -> Any:
            return resolve("127.0.0.1" if host == "bucket.s3.test" else host, *args, **options)

        monkeypatch.setattr(socket, "getaddrinfo", loopback)
        settings = S3Settings(
            f"http://s3.test:{server.port}", "access", SECRET, addressing="virtual"
        )
        server.lie("GET", says(404, "NoSuchKey"))
        with pytest.raises(ObjectNotFound):
            S3Store(settings).get("bucket", "a/key", max_bytes=10)
        (request,) = server.requests
        assert request.path == "/a/key"
        assert request.headers["Host"] == f"bucket.s3.test:{server.port}"


class TestSecrecy:
    def test_no_secret_key_or_content_in_exceptions_logs_or_repr(
        self, server: LyingS3, store: S3Store, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        caplog.set_level(logging.DEBUG)
        name = "canary-patient-name"
        texts = [repr(store._settings), repr(store)]
        lies = [
            says(403, body=error_document("AccessDenied", name)),
            says(500, body=error_document("InternalError", name)),
            says(400, body=error_document(f"x{name}", name)),
            says(404, body=error_document("NoSuchKey", name)),
            says(301, headers={"Location": f"http://evil/{name}"}),
            drops_connection(),
            cuts_body_short(1),
        ]
        server.store("bucket", name, name.encode(), {})
        for lie in lies:
            for call in (
                lambda: store.get("bucket", name, max_bytes=1000),
                lambda: store.put_if_absent("bucket", name, b"canary-content", content_type=TEXT),
                lambda: store.delete_many("bucket", [name]),
                lambda: list(store.list("bucket", name)),
                lambda: store.head("bucket", name),
            ):
                for method in ("GET", "PUT", "POST", "HEAD"):
                    server._lies.pop(method, None)
                    server.lie(method, lie)
                try:
                    texts.append(repr(call()))
                except StoreError as error:
                    texts += [str(error), repr(error)]
                    texts += told_with(error)
        said = "\n".join(texts) + caplog.text
        assert len(texts) > 50
        for canary in (SECRET, TOKEN, name, "canary-content"):
            assert canary not in said

    def test_every_call_is_observed_with_a_bounded_outcome(
        self,
        server: LyingS3,
        store: S3Store,
        observed: list[tuple[str, str, float, int]],
    ) -> None:
        store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
        store.put_if_absent("bucket", "key", b"else", content_type=TEXT)
        server.lie("PUT", says(503, after_effect=True))
        store.put_if_absent("bucket", "key2", b"mine", content_type=TEXT)
        store.get("bucket", "key", max_bytes=10)
        with pytest.raises(ObjectNotFound):
            store.get("bucket", "missing", max_bytes=10)
        next(store.list("bucket", ""))
        assert [(operation, outcome, size) for operation, outcome, _, size in observed] == [
            ("put_if_absent", "created", 4),
            ("put_if_absent", "identical", 4),
            ("put_if_absent", "conflict", 4),
            ("put_if_absent", "ambiguous_resolved", 4),
            ("get", "ok", 4),
            ("get", "not_found", 0),
            ("list", "ok", 0),
        ]
        assert all(seconds >= 0 for _, _, seconds, _ in observed)
