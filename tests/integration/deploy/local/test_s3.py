"""The local S3 server: conditional writes, many buckets, restarts, keys, users, TLS."""

from __future__ import annotations

import io
import stat
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3
from minio import Minio
from minio.error import S3Error

from deploy.local.process import ServerFailed
from deploy.local.s3 import REGION, S3Identity, S3Server, S3Tls
from tests.integration.deploy.local.certificates import Authority
from tests.servers import S3, MakeBucket

pytestmark = pytest.mark.integration


def _put(client: Minio, bucket: str, key: str, body: bytes, **headers: str) -> tuple[str, str]:
    """('200', ETag), or (error code, '')."""
    named: dict[str, str | list[str] | tuple[str]] = {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    try:
        answer = client._execute("PUT", bucket, key, body=body, headers=named)
    except S3Error as error:
        return str(error.code), ""
    return str(answer.status), str(answer.headers["ETag"])


def _get(client: Minio, bucket: str, key: str) -> bytes:
    answer = client.get_object(bucket, key)
    try:
        return bytes(answer.read())
    finally:
        answer.close()
        answer.release_conn()


def test_if_none_match_creates_once(s3: S3, make_bucket: MakeBucket) -> None:
    client, bucket = s3.client(), make_bucket()
    assert _put(client, bucket, "key", b"first", If_None_Match="*")[0] == "200"
    assert _put(client, bucket, "key", b"second", If_None_Match="*")[0] == "PreconditionFailed"
    assert _get(client, bucket, "key") == b"first"


def test_if_match_replaces_only_what_was_seen(s3: S3, make_bucket: MakeBucket) -> None:
    client, bucket = s3.client(), make_bucket()
    _, seen = _put(client, bucket, "key", b"first")
    assert _put(client, bucket, "key", b"second", If_Match=seen)[0] == "200"
    assert _put(client, bucket, "key", b"third", If_Match=seen)[0] == "PreconditionFailed"
    assert _get(client, bucket, "key") == b"second"


def test_if_match_on_a_missing_key_writes_nothing(s3: S3, make_bucket: MakeBucket) -> None:
    """Stores differ in the answer: SeaweedFS says PreconditionFailed, AWS S3 NoSuchKey."""
    client, bucket = s3.client(), make_bucket()
    code, _ = _put(client, bucket, "key", b"x", If_Match='"d41d8cd98f00b204e9800998ecf8427e"')
    assert code in ("PreconditionFailed", "NoSuchKey")
    with pytest.raises(S3Error, match="NoSuchKey"):
        client.stat_object(bucket, "key")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_sixteen_that_race_to_create_a_key_exactly_one_wins(
    s3: S3, make_bucket: MakeBucket
) -> None:
    """Five keys at a time: SeaweedFS lets some losers wait whole seconds for their answer."""
    client, bucket = s3.client(), make_bucket()
    racers, keys = range(16), [f"key-{number}" for number in range(20)]

    def race(one: tuple[int, str]) -> str:
        racer, key = one
        return _put(client, bucket, key, b"%d" % racer, If_None_Match="*")[0]

    with ThreadPoolExecutor(16 * 5) as pool:
        for first in range(0, 20, 5):
            entries = [(racer, key) for racer in racers for key in keys[first : first + 5]]
            answers = dict(zip(entries, pool.map(race, entries), strict=True))
            for key in keys[first : first + 5]:
                of_key = [answers[racer, key] for racer in racers]
                assert Counter(of_key) == {"200": 1, "PreconditionFailed": 15}
                assert _get(client, bucket, key) == b"%d" % of_key.index("200")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server of this module's own, to stop and to kill."""
    data = tmp_path_factory.mktemp("s3-own")
    reader = S3Identity("reader", "reader-key", "reader-secret", ("Read:inbox", "List:inbox"))
    with S3Server(data_dir=data, identities=[reader]) as server:
        yield server


@pytest.mark.slow
def test_thirty_buckets_with_an_object_each_fit_and_take_little_disk(own: S3Server) -> None:
    client = own.client()
    body = b"x" * 10_000
    for number in range(30):
        client.make_bucket(f"bucket-{number}")
        client.put_object(f"bucket-{number}", "key", io.BytesIO(body), len(body))
    assert all(_get(client, f"bucket-{number}", "key") == body for number in range(30))
    data = own.data_dir
    taken = sum(file.stat().st_blocks * 512 for file in data.rglob("*") if file.is_file())
    assert taken < 20 << 20


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_objects_survive_an_end_and_a_restart_at_the_same_address(own: S3Server, end: str) -> None:
    client, endpoint = own.client(), own.endpoint
    bucket = f"survives-{end}"
    client.make_bucket(bucket)
    client.put_object(bucket, "key", io.BytesIO(b"kept"), 4)

    getattr(own, end)()
    assert not own.running
    own.restart()

    assert own.endpoint == endpoint
    assert _get(client, bucket, "key") == b"kept"


def test_keys_differ_from_server_to_server_and_only_their_owner_can_read_them(
    own: S3Server, s3: S3
) -> None:
    assert own.secret_key != s3.secret_key
    for name in ("keys.json", "identities.json"):
        assert stat.S_IMODE((own.data_dir / name).stat().st_mode) == 0o600
    assert own.secret_key not in own.last_lines(10_000)


def test_wrong_keys_are_refused(own: S3Server) -> None:
    stranger = Minio(own.address, own.access_key, "wrong", secure=False, region=REGION)
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        stranger.list_buckets()


def test_a_user_who_may_read_one_bucket_can_do_that_and_nothing_else(own: S3Server) -> None:
    owner = own.client()
    for bucket in ("inbox", "outbox"):
        owner.make_bucket(bucket)
        owner.put_object(bucket, "key", io.BytesIO(b"in"), 2)
    reader = Minio(own.address, "reader-key", "reader-secret", secure=False, region=REGION)

    assert _get(reader, "inbox", "key") == b"in"
    for forbidden in (
        lambda: reader.put_object("inbox", "new", io.BytesIO(b"x"), 1),
        lambda: reader.remove_object("inbox", "key"),
        lambda: reader.get_object("outbox", "key"),
    ):
        with pytest.raises(S3Error, match="AccessDenied"):
            forbidden()


def test_a_later_start_over_the_same_folder_has_the_same_objects_keys_and_address(
    tmp_path: Path,
) -> None:
    with S3Server(data_dir=tmp_path) as server:
        before = (server.endpoint, server.access_key, server.secret_key)
        server.client().make_bucket("kept")
        server.client().put_object("kept", "key", io.BytesIO(b"kept"), 4)
    with S3Server(data_dir=tmp_path) as server:
        assert (server.endpoint, server.access_key, server.secret_key) == before
        assert _get(server.client(), "kept", "key") == b"kept"


def test_nothing_is_left_behind_by_a_server_without_a_folder() -> None:
    with S3Server() as server:
        data, ports = server.data_dir, set(server.ports)
        assert data.exists()
    assert not data.exists()
    assert not [
        socket_file
        for port in ports
        for socket_file in Path("/tmp").glob(f"seaweedfs-*-{port}.sock")
    ]


def test_tls_with_a_private_ca(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("s3-server")
    with S3Server(tls=S3Tls(certificate, key, authority.certificate)) as server:
        assert server.endpoint.startswith("https://127.0.0.1:")
        client = server.client()
        client.make_bucket("secret")
        assert client.bucket_exists("secret")

        without_the_ca = Minio(
            server.address,
            server.access_key,
            server.secret_key,
            region=REGION,
            http_client=urllib3.PoolManager(retries=False),
        )
        with pytest.raises(urllib3.exceptions.SSLError):
            without_the_ca.list_buckets()


def test_a_start_that_fails_shows_the_servers_own_words(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("in the way of the data folder")
    with (
        pytest.raises((ServerFailed, FileExistsError)) as raised,
        S3Server(data_dir=tmp_path),
    ):
        pass
    assert "store" in str(raised.value)
