"""The S3 client while a real server is killed, speaks TLS, or allows only some things."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deploy.local.s3 import S3Identity, S3Server, S3Tls
from sinks.objectstore import (
    AccessDenied,
    PutKind,
    S3Settings,
    S3Store,
    StoreError,
    StoreUnavailable,
)
from tests.unit.sinks.objectstore_contract import TEXT

pytestmark = pytest.mark.integration

READER = S3Identity("reader", "reader-key", "reader-secret", ("Read:papers", "List:papers"))


def self_signed(folder: Path) -> S3Tls:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    tls = S3Tls(folder / "certificate.pem", folder / "key.pem", folder / "certificate.pem")
    tls.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    tls.private_key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return tls


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, S3Tls]]:
    tls = self_signed(tmp_path_factory.mktemp("tls"))
    with S3Server(identities=[READER], tls=tls) as running:
        yield running, tls


def open_store(server: tuple[S3Server, S3Tls]) -> S3Store:
    running, tls = server
    store = S3Store(
        S3Settings(running.endpoint, running.access_key, running.secret_key, ca_file=tls.authority)
    )
    store.ensure_bucket("papers")
    return store


def test_a_private_certificate_authority_is_trusted_when_given_and_only_then(
    server: tuple[S3Server, S3Tls],
) -> None:
    store = open_store(server)
    store.put("papers", "a", b"over tls", content_type=TEXT)
    assert store.get("papers", "a", max_bytes=100).body == b"over tls"
    running, _ = server
    distrustful = S3Store(S3Settings(running.endpoint, running.access_key, running.secret_key))
    with pytest.raises(StoreUnavailable, match=r"TLS failed.*ca_file"):
        distrustful.get("papers", "a", max_bytes=100)


def test_a_known_user_without_the_right_is_denied_but_the_credentials_are_not_blamed(
    server: tuple[S3Server, S3Tls],
) -> None:
    open_store(server).put("papers", "b", b"x", content_type=TEXT)
    running, tls = server
    reader = S3Store(
        S3Settings(running.endpoint, READER.access_key, READER.secret_key, ca_file=tls.authority)
    )
    assert reader.get("papers", "b", max_bytes=10).body == b"x"
    with pytest.raises(AccessDenied) as caught:
        reader.put_if_absent("papers", "c", b"x", content_type=TEXT)
    assert caught.value.credentials_rejected is False


def test_a_killed_server_is_an_outage_and_the_same_client_goes_on_after_its_return(
    server: tuple[S3Server, S3Tls],
) -> None:
    store = open_store(server)
    etag = store.put_if_absent("papers", "kept", b"before", content_type=TEXT).etag
    running, _ = server
    running.kill()
    calls: list[Callable[[], object]] = [
        lambda: store.get("papers", "kept", max_bytes=10),
        lambda: store.put_if_absent("papers", "new", b"x", content_type=TEXT),
        lambda: store.replace_if_match("papers", "kept", b"y", etag=etag, content_type=TEXT),
        lambda: next(store.list("papers", "")),
        lambda: store.bucket_exists("papers"),
    ]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.kind == "systemic"
    running.restart()
    assert store.get("papers", "kept", max_bytes=10).body == b"before"
    outcome = store.put_if_absent("papers", "new", b"x", content_type=TEXT)
    assert outcome.kind is PutKind.CREATED
