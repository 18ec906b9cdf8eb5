"""Fetching what a service's answer points to, as a stranger: no credentials, no inside addresses.

A download URL is the service's word, so it may point anywhere. It is followed only where the
operator allowed its host, only to a public address unless configured otherwise, and only to the
address that was checked: the name is resolved once and the connection goes to that address (a
second look-up could answer differently). Redirects are refused: services that need one can give
the final URL.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from consumers.providers import retry_after
from consumers.providers.errors import (
    CallFailed,
    ImageExpired,
    ProviderError,
    ResponseUnsafe,
    ServiceUnavailable,
)
from consumers.providers.failures import failure
from consumers.providers.files import ReceivedFile, receive
from consumers.providers.transport import (
    MAX_URL_LENGTH,
    Limits,
    body_pieces,
    new_origins,
    opened,
    origin_of,
    target_of,
)
from sinks.http1 import Origin

_OPERATION = "fetch_image"

# What stores answer for a URL that is past its time. S3: 403, or 400 ExpiredToken.
_EXPIRED = frozenset({400, 401, 403, 404, 410})


@dataclass(frozen=True, slots=True)
class DownloadRules:
    """Where images may be fetched from.

    ``hosts``: names, `*.suffix` for every name below it, `*` for any; a port only where given.
    ``own_origin``: the configured service itself (an operator's own choice of address), always
    allowed. ``private_addresses``: also loopback, private and link-local ones, and plain http.
    """

    hosts: tuple[str, ...] = ()
    own_origin: str | None = None
    private_addresses: bool = False


class DownloadClient:
    """Safe to use from many threads."""

    def __init__(
        self,
        rules: DownloadRules,
        *,
        limits: Limits,
        connections: int = 32,
        ca_file: Path | None = None,
    ) -> None:
        self._rules = rules
        self._own_origin = origin_of(rules.own_origin) if rules.own_origin else None
        self._limits = limits
        self._origins = new_origins(limits, connections=connections, ca_file=ca_file, hosts=32)

    def fetch(
        self,
        url: str,
        destination: Path,
        *,
        max_bytes: int,
        expected_bytes: int | None = None,
        expected_sha256: str | None = None,
    ) -> ReceivedFile:
        """GET ``url`` into the private file ``destination``.

        Raises:
            ResponseUnsafe: not allowed to go there, or told to go elsewhere.
            ImageExpired: the URL does not work any more.
            DocumentRefused: larger than ``max_bytes``.
            Truncated, CallFailed, Throttled, ServiceUnavailable: as their names say.
        """
        host, port, addresses, own = self._allowed(url)
        unreachable: ProviderError | None = None
        for address in addresses:
            try:
                return self._fetch_from(
                    url,
                    host,
                    port,
                    address,
                    destination,
                    max_bytes=max_bytes,
                    expected_bytes=expected_bytes,
                    expected_sha256=expected_sha256,
                )
            except ServiceUnavailable as error:
                unreachable = error
        code = unreachable.code if unreachable else "dns_failed"
        if own:
            raise ServiceUnavailable(code, operation=_OPERATION)
        # Another host that one URL names is not the extraction service being down.
        raise CallFailed(code, operation=_OPERATION)

    def close(self) -> None:
        self._origins.close()

    def _allowed(self, url: str) -> tuple[str, int, list[str], bool]:
        try:
            if len(url) > MAX_URL_LENGTH or not (url.isascii() and url.isprintable()):
                raise ValueError
            scheme, host, port = origin_of(url)
        except ValueError:
            raise ResponseUnsafe("download_url_invalid", operation=_OPERATION) from None
        own = (scheme, host, port) == self._own_origin
        if scheme != "https" and not (own or self._rules.private_addresses):
            raise ResponseUnsafe("download_not_https", operation=_OPERATION)
        if not (own or any(_matches(rule, host, port) for rule in self._rules.hosts)):
            raise ResponseUnsafe("download_host_not_allowed", operation=_OPERATION)
        addresses = _resolve(host, port)
        if not (own or self._rules.private_addresses or all(map(_is_public, addresses))):
            raise ResponseUnsafe("download_address_private", operation=_OPERATION)
        return host, port, addresses, own

    def _fetch_from(
        self,
        url: str,
        host: str,
        port: int,
        address: str,
        destination: Path,
        *,
        max_bytes: int,
        expected_bytes: int | None,
        expected_sha256: str | None,
    ) -> ReceivedFile:
        parts = urlsplit(url)
        with opened(
            self._server(parts.scheme, host, port, address),
            "GET",
            target_of(url),
            operation=_OPERATION,
            headers={"Host": parts.netloc, "Accept-Encoding": "identity", "Accept": "*/*"},
            body=None,
            limits=self._limits,
        ) as response:
            if response.status == 200:
                return receive(
                    body_pieces(response, self._limits, operation=_OPERATION),
                    response.headers,
                    destination,
                    max_bytes=max_bytes,
                    operation=_OPERATION,
                    expected_bytes=expected_bytes,
                    expected_sha256=expected_sha256,
                )
            status, hint = response.status, retry_after.from_headers(response.headers)
        if status in _EXPIRED:
            raise ImageExpired("image_url_expired", status=status, operation=_OPERATION)
        raise failure(status, None, operation=_OPERATION, retry_after=hint)

    def _server(self, scheme: str, host: str, port: int, address: str) -> Origin:
        return self._origins.of(scheme, address, port, host if scheme == "https" else None)


def _matches(rule: str, host: str, port: int) -> bool:
    name, separator, rule_port = rule.lower().rpartition(":")
    if not (separator and rule_port.isdigit()):
        name = rule.lower()
    elif int(rule_port) != port:
        return False
    if name == "*":
        return True
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


def _resolve(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        found = []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        embedded = ip.ipv4_mapped or ip.sixtofour
        if embedded is None and ip in _NAT64:
            embedded = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        if embedded is not None:
            return embedded.is_global and not embedded.is_multicast
        if ip not in _GLOBAL_UNICAST:  # `is_global` is also said of what was never assigned
            return False
    return ip.is_global and not ip.is_multicast


_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
