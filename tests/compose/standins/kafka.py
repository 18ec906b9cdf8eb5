"""Entry point of the container that stands in for `apache/kafka`: the same variables, real Kafka.

As in that image, KAFKA_SOME_NAME is the broker's `some.name`, CLUSTER_ID formats the storage at the
first start, and KAFKA_HEAP_OPTS goes to Java. Only the standard library: it runs inside.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

NOT_PROPERTIES = {"KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_VERSION"}
PROPERTIES = Path("/tmp/server.properties")


def properties(environment: dict[str, str]) -> dict[str, str]:
    found = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in environment.items()
        if name.startswith("KAFKA_") and name not in NOT_PROPERTIES
    }
    return {"log.dirs": "/tmp/kraft-combined-logs", **found}


def main() -> None:
    settings = properties(dict(os.environ))
    PROPERTIES.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    heap = os.environ.get("KAFKA_HEAP_OPTS", "-Xmx512m").split()
    java = ["/opt/java/bin/java", *heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java += ["-cp", "/opt/kafka/libs/*"]
    if not Path(settings["log.dirs"], "meta.properties").exists():
        subprocess.run(
            [
                *(*java, "kafka.tools.StorageTool", "format"),
                *("-t", os.environ["CLUSTER_ID"], "-c", str(PROPERTIES)),
            ],
            check=True,
        )
    os.execv(java[0], [*java, "kafka.Kafka", str(PROPERTIES)])


if __name__ == "__main__":
    main()
