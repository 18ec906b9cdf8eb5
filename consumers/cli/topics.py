"""``bundles topics``: create or check them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.common import ConfigOption, JsonOption, Problem, SetOption, kafka, settings

if TYPE_CHECKING:
    from sinks.topics import TopicReport

app = typer.Typer(help="Create or check the four topics.", no_args_is_help=True)


@app.command()
def create(
    config: ConfigOption = None,
    set_: SetOption = None,
    partitions: Annotated[int, typer.Option(min=1, help="Of each new topic.")] = 12,
    replication: Annotated[int, typer.Option(help="-1: the broker's default.")] = -1,
    as_json: JsonOption = False,
) -> None:
    """Create what is missing; leave alone what is there."""
    from sinks.topics import TopicsUnavailable, ensure_topics

    found = settings(config, set_)
    try:
        reports = ensure_topics(
            kafka(found), found.topics, partitions=partitions, replication=replication
        )
    except TopicsUnavailable as error:
        raise Problem(str(error), 1) from None
    _show(reports, as_json)


@app.command()
def check(config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False) -> None:
    """Hold each topic's record size, retention, clean-up policy and replication against what is
    needed; exit code 1 where something is not as it should be, or could not be read."""
    from sinks.topics import TopicsUnavailable, check_topics

    found = settings(config, set_)
    try:
        reports = check_topics(kafka(found), found.topics)
    except TopicsUnavailable as error:
        raise Problem(str(error), 1) from None
    _show(reports, as_json)
    if not all(report.as_needed for report in reports):
        raise typer.Exit(1)


def _show(reports: list[TopicReport], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(report) for report in reports]))
        return
    for report in reports:
        state = "created" if report.created else "exists" if report.partitions else "missing"
        print(f"{report.name}: {state}, {report.partitions} partitions, {report.replicas} replicas")
        for problem in report.problems:
            print(f"  wrong: {problem}")
        for said in report.warnings:
            print(f"  warning: {said}")
        if report.unread is not None:
            print(
                f"  its settings could not be read ({report.unread}): allow DESCRIBE_CONFIGS on it"
            )
