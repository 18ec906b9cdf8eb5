"""``bundles compare``: the same documents by a synchronous request, by polling, elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.cli.common import ConfigOption, JsonOption, Problem, SetOption, settings

if TYPE_CHECKING:
    from consumers.extraction.documents.model import Region
    from consumers.operations.compare import Way
    from consumers.settings import Settings
    from schemas.policy import Policy

SAID = (
    "simulated: the synchronous request is an unpausing caller of the asynchronous service; "
    "Kafka and the object store take no part; the cost is that of the documents which the service "
    "accepted, what it may charge where a submit's answer was lost is not in it"
)


def compare(
    files: Annotated[list[Path], typer.Argument(help="PDFs to extract.", exists=True)],
    provider: Annotated[
        list[str] | None,
        typer.Option(help="A configured provider; repeatable, the first is also asked in sync."),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Documents at a time.", min=1)] = 8,
    repeat: Annotated[int, typer.Option(help="Times that each file is sent.", min=1)] = 1,
    policy: Annotated[str, typer.Option(help="Whose polling and limits hold.")] = "default",
    price: Annotated[
        list[str] | None, typer.Option(help="NAME=PRICE of a page, for the cost; repeatable.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the seconds by cause into this PNG, too.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Latency by cause, polls, throttles, failures, bytes and what is left behind, for each way of
    asking.

    Every document is really submitted: a service that bills does so for each way and repetition.
    """
    from consumers.operations import compare as operation

    draw = _drawing(plot) if plot else None
    found = settings(config, set_)
    chosen = found.policies.get(policy)
    if chosen is None:
        raise Problem(f"--policy {policy}: there is no such policy")
    try:
        documents = operation.documents_of(files) * repeat
    except ValueError as error:
        raise Problem(str(error)) from None
    ways = _ways(found, chosen, provider or [chosen.provider], _prices(price or []))
    try:
        rows = operation.compare(ways, documents, concurrency=concurrency)
    finally:
        for way in {id(w.provider): w for w in ways}.values():
            way.provider.close()
    if as_json:
        print(json.dumps({"ways": rows, "concurrency": concurrency, "note": SAID}))
    else:
        _show(rows)
        print(SAID)
    if draw is not None:
        draw(rows)
    if any(row["failures"] for row in rows):
        raise typer.Exit(1)


def _drawing(file: Path) -> Callable[[list[dict[str, Any]]], None]:
    """What draws rows into ``file``. Made before anything is submitted, and perhaps billed.

    :raises Problem: it could not be drawn, or not be written there.
    """
    try:
        from consumers.cli.compare_plot import draw
    except ImportError:
        sentence = "--plot needs the extra: pip install 'bundle-extractor[plot]'"
        raise Problem(sentence) from None
    try:
        file.open("ab").close()
    except OSError as error:
        raise Problem(f"--plot {file}: {error.strerror}") from None
    return lambda rows: draw(rows, SAID, file)


def _prices(given: list[str]) -> dict[str, float]:
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise Problem(f"--price {text}: write it as NAME=PRICE, e.g. infrai=0.002") from None
    return found


def _ways(found: Settings, policy: Policy, names: list[str], prices: dict[str, float]) -> list[Way]:
    from consumers.operations.compare import Way
    from consumers.providers.registry import SettingsInvalid, build, problems_at_start

    ways = []
    for number, name in enumerate(names):
        configured = found.providers.get(name)
        if configured is None:
            raise Problem(f"--provider {name}: not configured (section providers)")
        try:
            provider = build(
                configured.model_copy(update={"name": configured.name or name}),
                cut_regions=_cut_in_a_sandbox,
            )
        except SettingsInvalid as error:
            raise Problem(str(error)) from None
        for objection in problems_at_start(provider, forbidden_regions=policy.forbidden_regions):
            if objection.forbids:
                raise Problem(objection.text)
        kinds = {"synchronous": True, "polling": False} if number == 0 else {"polling": False}
        ways += [
            Way(
                f"{name}, {title}",
                provider,
                policy,
                synchronous=synchronous,
                price_per_page=prices.get(name),
                polls_per_second=configured.max_polls_per_second,
            )
            for title, synchronous in kinds.items()
        ]
    return ways


def _cut_in_a_sandbox(document: Path, regions: Sequence[Region], dpi: int) -> list[bytes]:
    from consumers.extraction.sandbox import Sandbox

    with Sandbox(1) as sandbox:
        return sandbox.cut_regions(document, regions, dpi)


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", *(row["way"] for row in rows))
    causes = rows[0]["seconds"]
    for cause in causes:
        table.add_row(
            f"{cause} p50/p95/p99 s",
            *(
                "/".join(f"{value:.2f}" for value in row["seconds"][cause].values()) or "-"
                for row in rows
            ),
        )
    for name in (
        "documents_per_s",
        "polls",
        "throttled",
        "images",
        "bytes_submitted",
        "bytes_received",
        "jobs_left_at_service",
        "bytes_left_at_service",
        "jobs_perhaps_left",
        "manual_steps",
        "cost",
    ):
        table.add_row(
            name.replace("_", " "),
            *("-" if row[name] is None else str(row[name]) for row in rows),
        )
    table.add_row("failures", *(", ".join(row["failures"]) or "none" for row in rows))
    Console().print(table)
