"""``bundles buckets create`` on a real store."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests import servers
from tests.servers import S3


def create(s3: S3, output: str, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "BUNDLES_STORE__ENDPOINT": s3.endpoint,
        "BUNDLES_STORE__ACCESS_KEY": s3.access_key,
        "BUNDLES_STORE__SECRET_KEY": s3.secret_key,
        "BUNDLES_STORE__OUTPUT_BUCKET": output,
        "BUNDLES_STORE__INPUT_BUCKET": source,
    }
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BUNDLES_")}
    return subprocess.run(
        [sys.executable, "-m", "consumers.cli", "buckets", "create", *options],
        capture_output=True,
        text=True,
        timeout=120,
        env=clean | settings,
        check=False,
    )


def test_missing_buckets_are_made_and_those_there_left_alone(s3: S3) -> None:
    output, source = servers.unique_name("output"), servers.unique_name("input")
    try:
        first = create(s3, output, source, "--json")
        assert json.loads(first.stdout) == [
            {"name": output, "created": True},
            {"name": source, "created": True},
        ]
        again = create(s3, output, source)
        assert again.stdout.splitlines() == [f"{output}: exists", f"{source}: exists"]
        assert again.returncode == 0
    finally:
        servers.delete_buckets(s3, [output, source])


def test_a_name_that_no_bucket_can_have_is_a_sentence(s3: S3) -> None:
    done = create(s3, "no", servers.unique_name("input"))
    assert done.returncode == 1
    assert done.stderr.startswith("bundles: ")
    assert "Traceback" not in done.stderr
