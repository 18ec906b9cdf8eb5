"""``bundles local``: everything on this machine."""

from __future__ import annotations

import contextlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from consumers.cli.common import Problem, local_settings_file


class KafkaMode(StrEnum):
    AUTO = "auto"
    APACHE = "apache"
    EMBEDDED = "embedded"


def local(
    kafka: Annotated[
        KafkaMode,
        typer.Option(help="auto: Apache Kafka, or librdkafka's built-in broker where it is not."),
    ] = KafkaMode.AUTO,
    workers: Annotated[int, typer.Option(min=0, help="How many workers to start.")] = 1,
    data: Annotated[
        Path | None, typer.Option(help="Keep the data here over restarts; else it is removed.")
    ] = None,
    extractor: Annotated[
        bool, typer.Option(help="Start the self-hosted extraction service.")
    ] = True,
) -> None:
    """Start Kafka, an S3 store, the extraction service and a worker, on free loopback ports, until
    Ctrl-C. Needs no container engine: `pip install 'bundle-extractor[local]'`.

    While it runs, the other commands (`bundles submit`, ...) find it by themselves.
    """
    try:
        from deploy.local.ending import Ended, run_until_signal
        from deploy.local.process import ServerFailed
        from deploy.local.stack import LocalStack, StackOptions
    except ModuleNotFoundError as error:
        raise Problem(
            f"{error.name} is missing: install the extra with pip install 'bundle-extractor[local]'"
        ) from None

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    options = StackOptions(kafka=kafka.value, workers=workers, data_dir=data, extractor=extractor)
    file = local_settings_file()
    stack = LocalStack(options, say)

    def until_told_to_end() -> None:
        stack.start()
        stack.write_settings(file)
        with contextlib.suppress(Ended):  # the ordinary end, once everything is up
            print("everything is up; Ctrl-C stops it")
            for name, address in stack.addresses().items():
                print(f"  {name}: {address}")
            print(f"  settings for other commands: {file}")
            print(f"  logs: {stack.data_dir}", flush=True)
            stack.wait()

    try:
        run_until_signal(until_told_to_end, stack.close)
    except Ended as ended:
        raise Problem(f"{ended} before everything was up", ended.exit_code) from None
    except ServerFailed as error:
        raise Problem(str(error), 1) from None
