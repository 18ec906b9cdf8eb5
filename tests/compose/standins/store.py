"""Entry point of the container that stands in for a MinIO image: the same variables, command
(``server /data``), port and health address; inside it SeaweedFS. Only the standard library: it runs
inside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

IDENTITIES = Path("/tmp/identities.json")
# MinIO answers GET /minio/health/live on the S3 port: here that is an object anybody may read.
LIVE = "http://127.0.0.1:8888/buckets/minio/health/live"
START_TIMEOUT_S = 120.0


def identities(user: str, password: str) -> dict[str, object]:
    return {
        "identities": [
            {
                "name": "root",
                "credentials": [{"accessKey": user, "secretKey": password}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            },
            {"name": "anonymous", "actions": ["Read:minio"]},
        ]
    }


def command(data: str) -> list[str]:
    options = {
        "dir": data,
        "ip": "127.0.0.1",
        "ip.bind": "0.0.0.0",
        "s3.port": 9000,
        "s3.config": IDENTITIES,
        "filer.port": 8888,
        "bucket": "minio",
        "master.volumeSizeLimitMB": 64,
        "volume.max": 2000,
        "webdav": "false",
        "admin.ui": "false",
        "s3.iam": "false",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.autoCreateBucket": "false",
        "master.telemetry": "false",
    }
    weed = ["/usr/local/bin/weed", "-logtostderr", "mini"]
    return weed + [f"-{name}={value}" for name, value in options.items()]


def say_live() -> None:
    """Put the object of the health address, once the server takes it."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        request = urllib.request.Request(LIVE, data=b"", method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def main() -> int:
    if sys.argv[1:2] != ["server"] or len(sys.argv) < 3:
        print("usage: server DATA", file=sys.stderr)
        return 2
    root = identities(os.environ["MINIO_ROOT_USER"], os.environ["MINIO_ROOT_PASSWORD"])
    IDENTITIES.write_text(json.dumps(root))
    with subprocess.Popen(command(sys.argv[2])) as weed:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: weed.terminate())
        say_live()
        return weed.wait()


if __name__ == "__main__":
    sys.exit(main())
