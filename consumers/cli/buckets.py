"""``bundles buckets``: create the buckets that the settings name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.common import ConfigOption, JsonOption, Problem, SetOption, settings

if TYPE_CHECKING:
    from consumers.settings import StoreSettings
    from sinks.objectstore import S3Store

app = typer.Typer(help="Create the buckets.", no_args_is_help=True)


@app.callback()
def buckets() -> None:
    """Create the buckets."""


@app.command()
def create(
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
    only_output: Annotated[
        bool, typer.Option("--only-output", help="Not the input bucket (it is someone else's).")
    ] = False,
) -> None:
    """Create the output and the input bucket where they are missing; leave alone what is there.

    For trying out and for tests: in production buckets come with their policies, encryption and
    retention from whoever looks after the store.
    """
    from consumers.settings import SettingsError
    from sinks.objectstore import StoreError

    found = settings(config, set_).store
    try:
        rows = [_ensure(found, found.output_bucket, is_input=False)]
        if not only_output:
            rows.append(_ensure(found, found.input_bucket, is_input=True))
    except SettingsError as error:
        raise Problem(str(error)) from None
    except StoreError as error:
        raise Problem(str(error), 1) from None
    if as_json:
        print(json.dumps([{"name": name, "created": created} for name, created in rows]))
        return
    for name, created in rows:
        print(f"{name}: {'created' if created else 'exists'}")


def _ensure(settings: StoreSettings, bucket: str, *, is_input: bool) -> tuple[str, bool]:
    """:raises StoreError: it is not there and cannot be created."""
    from consumers.stores import open_store

    store = open_store(settings, input_only=is_input, threads=1)
    try:
        return bucket, not store.bucket_exists(bucket) and _create(store, bucket)
    finally:
        store.close()


def _create(store: S3Store, bucket: str) -> bool:
    from sinks.objectstore import StoreError
    from sinks.objectstore.everyday import as_ours

    try:
        with as_ours("create_bucket", bucket):
            store.minio.make_bucket(bucket)
    except StoreError:
        # Another set-up may have been quicker.
        if store.bucket_exists(bucket):
            return False
        raise
    return True
