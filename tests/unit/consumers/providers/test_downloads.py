from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from consumers.providers.downloads import DownloadClient, DownloadRules
from consumers.providers.errors import CallFailed, ProviderError, ResponseUnsafe
from consumers.providers.transport import Limits

HOST = "images.test"
LIMITS = Limits(connect_seconds=2, read_seconds=5)


def client(
    *hosts: str, private: bool = False, own: str | None = None, ca_file: Path | None = None
) -> DownloadClient:
    rules = DownloadRules(hosts=hosts, own_origin=own, private_addresses=private)
    return DownloadClient(rules, limits=LIMITS, ca_file=ca_file)


def refusal(downloads: DownloadClient, url: str, tmp_path: Path) -> str:
    with pytest.raises(ResponseUnsafe) as caught:
        downloads.fetch(url, tmp_path / "x", max_bytes=100)
    return caught.value.code


def resolving_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Names resolve to ``addresses``, the next one at each look-up. Returns the look-ups made."""
    asked: list[str] = []

    really = socket.getaddrinfo

    def resolve(host: str, port: int, *rest: Any, **more: Any) -> list[Any]:
        if host[0].isdigit():  # a connection to an address: nothing is looked up
            return really(host, port, *rest, **more)
        asked.append(host)
        address = addresses[min(len(asked), len(addresses)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr("consumers.providers.downloads.socket.getaddrinfo", resolve)
    return asked


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::7f00:1",
        "::a01:203",
        "fec0::1",
        "ff02::1",
        "4000::1",
        "2001:0:7f00:1::",
        "64:ff9b:1::7f00:1",
    ],
)
def test_a_name_that_resolves_to_an_inside_address_is_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving_to(monkeypatch, address)
    assert refusal(client("*"), f"https://{HOST}/x", tmp_path) == "download_address_private"


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "017700000001", "127.1", "0x7f.1", "[::ffff:7f00:1]", "[::]"],
)
def test_an_inside_address_in_another_spelling_is_refused(host: str, tmp_path: Path) -> None:
    """By the operating system's own look-up, which is what would connect."""
    assert refusal(client("*"), f"https://{host}/x", tmp_path) == "download_address_private"


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        (("images.test",), True),
        (("IMAGES.test",), True),
        (("images.test:443",), True),
        (("images.test:8443",), False),
        (("*.test",), True),
        (("*",), True),
        (("test",), False),
        (("*.images.test",), False),
        (("ages.test",), False),
        (("*ages.test",), False),
        ((), False),
    ],
)
def test_only_listed_hosts_are_asked(
    rules: tuple[str, ...], allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving_to(monkeypatch, "10.0.0.1")
    code = refusal(client(*rules), f"https://{HOST}/x", tmp_path)
    assert (code == "download_address_private") is allowed


@pytest.mark.parametrize(
    "url",
    [
        "",
        "images.test/x",
        "file:///etc/passwd",
        "gopher://images.test/",
        "https:///x",
        "https://user:secret@images.test/x",
        "https://images.test/\r\nX: y",
        "https://im\u00e4ges.test/x",
        "https://images.test/" + "x" * 20_000,
        "https://images.test:99999/",
        "https://[::1/",
    ],
)
def test_what_is_no_plain_https_url_is_refused(url: str, tmp_path: Path) -> None:
    assert refusal(client("*"), url, tmp_path) == "download_url_invalid"


def test_plain_http_is_refused_unless_it_is_the_service_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving_to(monkeypatch, "93.184.216.34")
    assert refusal(client("*"), f"http://{HOST}/x", tmp_path) == "download_not_https"
    with closed_port() as port:
        own = client(own=f"http://127.0.0.1:{port}/v1")
        resolving_to(monkeypatch, "127.0.0.1")
        with pytest.raises(ProviderError) as caught:
            own.fetch(f"http://127.0.0.1:{port}/x", tmp_path / "x", max_bytes=1)
        assert caught.value.kind == "systemic"
    assert refusal(own, f"http://127.0.0.1:{port + 1}/x", tmp_path) == "download_not_https"


def test_another_host_that_cannot_be_reached_costs_an_attempt_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving_to(monkeypatch, "127.0.0.1")
    with closed_port() as port, pytest.raises(CallFailed):
        client("*", private=True).fetch(f"http://{HOST}:{port}/x", tmp_path / "x", max_bytes=1)


def test_the_checked_address_is_the_one_connected_to_with_the_names_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls_server: tuple[int, Path, list[str]]
) -> None:
    port, ca_file, hosts = tls_server
    asked = resolving_to(monkeypatch, "127.0.0.1", "203.0.113.1")
    downloads = client(HOST, private=True, ca_file=ca_file)
    received = downloads.fetch(f"https://{HOST}:{port}/x?y=1", tmp_path / "x", max_bytes=100)
    assert received.path.read_bytes() == b"image"
    assert asked == [HOST]
    assert hosts == [f"{HOST}:{port} /x?y=1"]


def test_a_certificate_of_another_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls_server: tuple[int, Path, list[str]]
) -> None:
    port, ca_file, hosts = tls_server
    resolving_to(monkeypatch, "127.0.0.1")
    downloads = client("*", private=True, ca_file=ca_file)
    with pytest.raises(CallFailed) as caught:
        downloads.fetch(f"https://other.test:{port}/x", tmp_path / "x", max_bytes=100)
    assert caught.value.code == "tls_failed"
    assert hosts == []


class closed_port:
    """A port on which nobody listens, kept from others meanwhile."""

    def __enter__(self) -> int:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        return int(self._socket.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._socket.close()


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[tuple[int, Path, list[str]]]:
    """A server with a certificate for `HOST`: its port, that certificate, what it was asked."""
    certificate = tmp_path / "certificate.pem"
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file = tmp_path / "key.pem"
    key_file.write_bytes(private)
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.headers['Host']} {self.path}")
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"image")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer((str(ipaddress.IPv4Address("127.0.0.1")), 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key_file)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_port, certificate, asked
    server.shutdown()
    thread.join()
    server.server_close()
