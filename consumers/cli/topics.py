"""``bundles topics``: create or check them."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from consumers.cli.common import ConfigOption, JsonOption, Problem, SetOption, settings
from consumers.settings import Settings
from sinks.topics import TopicReport, TopicsUnavailable, check_topics, ensure_topics

app = typer.Typer(help="Create or check the four topics.", no_args_is_help=True)


def client(found: Settings) -> dict[str, str]:
    from consumers.app import kafka_client

    return {"bootstrap.servers": found.kafka.bootstrap_servers, **kafka_client(found)}


@app.command()
def create(
    config: ConfigOption = None,
    set_: SetOption = None,
    partitions: Annotated[int, typer.Option(min=1, help="Of each new topic.")] = 12,
    replication: Annotated[int, typer.Option(help="-1: the broker's default.")] = -1,
    as_json: JsonOption = False,
) -> None:
    """Create what is missing; leave alone what is there."""
    found = settings(config, set_)
    try:
        reports = ensure_topics(
            client(found), found.topics, partitions=partitions, replication=replication
        )
    except TopicsUnavailable as error:
        raise Problem(str(error), 1) from None
    _show(reports, as_json)


@app.command()
def check(config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False) -> None:
    """Say how each topic stands; exit code 1 where something is wrong."""
    found = settings(config, set_)
    try:
        reports = check_topics(client(found), found.topics)
    except TopicsUnavailable as error:
        raise Problem(str(error), 1) from None
    _show(reports, as_json)
    if any(report.problems for report in reports):
        raise typer.Exit(1)


def _show(reports: list[TopicReport], as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "name": r.name,
                "partitions": r.partitions,
                "created": r.created,
                "problems": list(r.problems),
            }
            for r in reports
        ]
        print(json.dumps(rows))
        return
    for report in reports:
        state = "created" if report.created else "exists" if report.partitions else "missing"
        print(f"{report.name}: {state}, {report.partitions} partitions")
        for problem in report.problems:
            print(f"  {problem}")
