"""AWS Signature Version 4 for S3 requests without a query.

minio's signer gives the same signature (a test holds this one to it) and derives the key anew for
every request: a third of all that a request to the store costs.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime


class Signer:
    """Signs with one pair of keys for one region. Safe to use from many threads."""

    def __init__(
        self, access_key: str, secret_key: str, region: str, session_token: str | None
    ) -> None:
        self._access_key = access_key
        self._secret_key = secret_key
        self._region = region
        self._session_token = session_token
        self._key_of_day: tuple[str, bytes] = ("", b"")

    def sign(
        self, method: str, path: str, headers: dict[str, str], *, sha256: str, now: datetime
    ) -> None:
        """Add to ``headers`` what signs them, all that are there, as they are.

        :param path: quoted as it is sent.
        :param headers: with Host; the names ASCII, the values without runs of blanks.
        :param sha256: of the body, in hex.
        :param now: in UTC.
        """
        moment = now.strftime("%Y%m%dT%H%M%SZ")
        headers["x-amz-content-sha256"] = sha256
        headers["x-amz-date"] = moment
        if self._session_token:
            headers["x-amz-security-token"] = self._session_token
        lines = sorted([(name.lower(), value) for name, value in headers.items()])
        names = ";".join([name for name, _ in lines])
        listed = "".join([f"{name}:{value.strip()}\n" for name, value in lines])
        request = f"{method}\n{path}\n\n{listed}\n{names}\n{sha256}"
        day = moment[:8]
        scope = f"{day}/{self._region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
        signature = hmac.digest(self._key(day), text.encode(), "sha256").hex()
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        )

    def _key(self, day: str) -> bytes:
        known, key = self._key_of_day
        if known != day:
            key = f"AWS4{self._secret_key}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key_of_day = (day, key)
        return key
