"""Where a provider's secret comes from, held so that it shows in no repr and no error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import SecretStr

TokenSource = Callable[[], str]
"""Gives the secret to send now; may be called for every request, from any thread."""


class CredentialMissing(ValueError):
    """A provider cannot be built: no secret, or one that cannot be sent. Says what to set."""


class FixedToken:
    """A secret given once."""

    def __init__(self, secret: str, *, setting: str) -> None:
        self._secret = _checked(secret, setting)

    def __call__(self) -> str:
        return self._secret

    def __repr__(self) -> str:
        return "FixedToken(**********)"


class TokenFile:
    """A secret in a file that may be replaced while we run (mounted secrets are rotated so).

    Read again when the file's modification time or inode changes; while it cannot be read, the last
    secret stays in use.
    """

    def __init__(self, path: Path, *, setting: str) -> None:
        self._path = path
        self._setting = setting
        self._secret = ""
        self._seen: tuple[int, int] | None = None
        try:
            self._read_if_changed()
        except OSError as error:
            raise CredentialMissing(
                f"{setting} names a file that cannot be read ({error.strerror})"
            ) from None

    def __call__(self) -> str:
        # Being replaced just now: the secret already read is still the best one we have.
        with contextlib.suppress(OSError, CredentialMissing):
            self._read_if_changed()
        return self._secret

    def __repr__(self) -> str:
        return "TokenFile(**********)"

    def _read_if_changed(self) -> None:
        facts = self._path.stat()
        version = (facts.st_mtime_ns, facts.st_ino)
        if version != self._seen:
            self._secret = _checked(self._path.read_text("utf-8").strip(), self._setting)
            self._seen = version


def token_source(
    token: SecretStr | None,
    token_file: Path | None,
    *,
    environment: Mapping[str, str],
    variable: str | None,
) -> TokenSource | None:
    """The configured secret: the setting, the file, or the environment variable ``variable`` or
    ``variable``_FILE, in this order. None where nothing is set.

    Raises:
        CredentialMissing: what is set is empty, unreadable or cannot be put into a header.
    """
    if token is not None:
        return FixedToken(token.get_secret_value(), setting="token")
    if token_file is not None:
        return TokenFile(token_file, setting="token_file")
    if variable is None:
        return None
    if environment.get(variable):
        return FixedToken(environment[variable].strip(), setting=variable)
    if environment.get(f"{variable}_FILE"):
        return TokenFile(Path(environment[f"{variable}_FILE"]), setting=f"{variable}_FILE")
    return None


def _checked(secret: str, setting: str) -> str:
    if not secret:
        raise CredentialMissing(f"{setting} is empty: put the service's API key there")
    if not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise CredentialMissing(
            f"{setting} holds characters that cannot be sent in a header: "
            "check for line breaks or quotes around the API key"
        )
    return secret
