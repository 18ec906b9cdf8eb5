"""Opens the object store that the settings name."""

from __future__ import annotations

from collections.abc import Callable

from consumers.settings import SettingsError, StoreCredentials, StoreSettings, read_secret
from sinks.objectstore import S3Settings, S3Store

Observe = Callable[[str, str, float, int], None]


def open_store(
    settings: StoreSettings,
    *,
    input_only: bool = False,
    threads: int = 16,
    observe: Observe | None = None,
) -> S3Store:
    """The store for output, or with ``input_only`` the one that sources are read from.

    :raises SettingsError: an endpoint, key or file that cannot work.
    """
    used: StoreCredentials = settings
    where = "store"
    if input_only and settings.input is not None:
        used, where = settings.input, "store.input"
    access_key = read_secret(used.access_key, used.access_key_file, f"{where}.access_key")
    secret_key = read_secret(used.secret_key, used.secret_key_file, f"{where}.secret_key")
    session_token = read_secret(
        used.session_token, used.session_token_file, f"{where}.session_token"
    )
    if not access_key or not secret_key:
        raise SettingsError(
            f"{where}.access_key and {where}.secret_key must be set "
            f"(or {where}.access_key_file and {where}.secret_key_file)"
        )
    headers: dict[str, str] = {}
    if settings.server_side_encryption and not input_only:
        headers["x-amz-server-side-encryption"] = settings.server_side_encryption
        if settings.kms_key_id:
            headers["x-amz-server-side-encryption-aws-kms-key-id"] = settings.kms_key_id
    try:
        s3 = S3Settings(
            endpoint_url=used.endpoint,
            access_key=access_key,
            secret_key=secret_key,
            session_token=session_token,
            region=used.region,
            addressing=used.addressing,
            ca_file=used.ca_file,
            connect_timeout=used.connect_timeout,
            read_timeout=used.read_timeout,
            max_connections=threads,
            write_headers=headers,
        )
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    return S3Store(s3) if observe is None else S3Store(s3, observe=observe)
