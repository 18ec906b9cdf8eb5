"""Expiring, unforgeable names for output files: the capability is the URL itself."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct

# Job id, image ordinal, expiry in whole Unix seconds. With the signature a multiple of three bytes,
# so that a token has exactly one base64 form.
_PAYLOAD = struct.Struct(">16sIQ")
_SIGNATURE_BYTES = 32


class BadToken(ValueError):
    """Not a token that this service made."""


class ExpiredToken(ValueError):
    """Made by this service, but its time is over."""


def sign(key: bytes, job_id: str, ordinal: int, expires_at: float) -> str:
    """A URL-safe token for image number `ordinal` of a job, valid until `expires_at` (Unix s)."""
    payload = _PAYLOAD.pack(bytes.fromhex(job_id), ordinal, int(expires_at))
    signature = hmac.digest(key, payload, hashlib.sha256)
    return base64.urlsafe_b64encode(payload + signature).rstrip(b"=").decode("ascii")


def verify(key: bytes, token: str, now: float) -> tuple[str, int]:
    """The job id and ordinal that a token stands for.

    Raises BadToken, or ExpiredToken for a genuine one that is too old.
    """
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadToken("malformed") from None
    if len(raw) != _PAYLOAD.size + _SIGNATURE_BYTES:
        raise BadToken("wrong length")
    payload, signature = raw[: _PAYLOAD.size], raw[_PAYLOAD.size :]
    if not hmac.compare_digest(hmac.digest(key, payload, hashlib.sha256), signature):
        raise BadToken("wrong signature")
    job_id, ordinal, expires_at = _PAYLOAD.unpack(payload)
    if now >= expires_at:
        raise ExpiredToken("expired")
    return job_id.hex(), ordinal
