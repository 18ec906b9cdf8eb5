"""``python -m consumers.healthcheck``: is the server beside this process well? For containers.

A command of its own, with nothing but the standard library: a container runs it every few seconds,
and it must answer on a machine that is busy. (`bundles doctor` is the thorough one.)
"""

from __future__ import annotations

import argparse
import http.client
import os
import sys

DEFAULT_PORT = "9108"
MAX_REASON_BYTES = 500


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0: well; 1: not well, or no answer. One line says what was found."""
    parser = argparse.ArgumentParser(prog="python -m consumers.healthcheck")
    parser.add_argument("path", nargs="?", default="/live", help="/live (default), /ready, ...")
    parser.add_argument(
        "--port",
        type=int,
        default=int(os.environ.get("BUNDLES_HTTP__PORT", DEFAULT_PORT)),
        help="on this machine; default: the worker's",
    )
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds to wait at most")
    given = parser.parse_args(arguments)
    connection = http.client.HTTPConnection("127.0.0.1", given.port, timeout=given.timeout)
    try:
        connection.request("GET", given.path)
        answer = connection.getresponse()
        said = answer.read(MAX_REASON_BYTES).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        print(f"port {given.port} does not answer: {type(error).__name__}")
        return 1
    finally:
        connection.close()
    print(f"{answer.status} {said}")
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main())
