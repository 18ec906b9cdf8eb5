"""``/status``: what this worker owns and does now, for people (HTML) and programs (JSON).

No scripts, nothing loaded from elsewhere, and no content: documents are known by extraction id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from http import HTTPStatus
from importlib.resources import files
from string import Template

from consumers.health import Answer, Request
from consumers.status_report import DOCUMENTS_SHOWN, DocumentRow, JobRow, LimitRow, Report

REFRESH_S = 5
STALE_S = 5.0
"""The report is renewed every second; older than this, the control loop hangs."""
HIGH = 0.85
"""From this share on a limit counts as nearly reached."""
RECENT_SHOWN = 20

Cell = tuple[str, str]
"""HTML, and the class of its cell."""


@dataclass(frozen=True, slots=True)
class Health:
    live: bool
    ready: bool
    reason: str
    loop_age_seconds: float


def status_page(request: Request, report: Report, health: Health, *, now: float) -> Answer:
    """JSON for ``?format=json`` or where it is what the client accepts; else HTML."""
    wanted = request.query.get("format", "")
    if wanted == "json" or (not wanted and prefers_json(request.accept)):
        body = {"schema_version": 1, "health": asdict(health), **asdict(report)}
        return HTTPStatus.OK, "application/json", json.dumps(body).encode()
    asked = request.query.get("refresh", str(REFRESH_S))
    refresh = int(asked) if asked.isascii() and asked.isdecimal() else 0
    page = as_html(report, health, now=now, refresh=min(refresh, 3600))
    return HTTPStatus.OK, "text/html; charset=utf-8", page.encode()


def prefers_json(accept: str) -> bool:
    """``Accept`` names JSON and not HTML: browsers name HTML."""
    return "application/json" in accept and "text/html" not in accept


def as_html(report: Report, health: Health, *, now: float, refresh: int) -> str:
    """``refresh``: seconds until the browser loads it anew; 0: never."""
    parts = [
        _header(report, health, now),
        _banners(report, now),
        _tiles(report),
        f'<div class="pair">{_causes(report)}{_job_states(report)}</div>',
        _partitions(report),
        _dependencies(report),
        f'<div class="pair">{_limits(report)}{_pools(report)}</div>',
        f'<div class="pair">{_reasons(report)}{_dead_letters(report)}</div>',
        _documents(report),
        _footer(report, refresh),
    ]
    return _template().substitute(
        refresh=f'<meta http-equiv="refresh" content="{refresh}">' if refresh else "",
        title=f"Worker {escape(report.worker)}",
        body="\n".join(parts),
    )


@cache
def _template() -> Template:
    return Template(files("consumers").joinpath("status.html").read_text("utf-8"))


# -- the parts -----------------------------------------------------------------------------------


def _header(report: Report, health: Health, now: float) -> str:
    if not health.live:
        state = _pill("hangs", "bad")
    elif health.ready:
        state = _pill("ready", "good")
    else:
        state = _pill("not ready", "warn")
    reason = f"<span>{escape(health.reason)}</span>" if health.reason else ""
    about = [
        f"{report.host}, process {report.pid}",
        f"version {report.version}",
        f"up {duration(now - report.started_at)}",
        f"group {report.group}",
        f"as of {duration(max(0.0, now - report.taken_at))} ago",
    ]
    return (
        f"<header><h1>Worker {escape(report.worker)}</h1>{state}{_pill(report.state)}{reason}"
        f'</header><p class="about">{escape(" · ".join(about))}</p>'
    )


def _banners(report: Report, now: float) -> str:
    banners = []
    if now - report.taken_at > STALE_S:
        age = duration(now - report.taken_at)
        banners.append(("bad", f"The control loop hangs: what follows is {age} old."))
    if report.intake_stopped:
        why = ", ".join(report.intake_stopped)
        banners.append(("warn", f"No events are taken in: {why}."))
    return "".join(
        f'<div class="banner {kind}" role="status">{escape(text)}</div>' for kind, text in banners
    )


def _tiles(report: Report) -> str:
    lags = [p.lag_records for p in report.partitions if p.lag_records is not None]
    limits = {limit.kind: limit for limit in report.limits if limit.kind != "jobs"}
    events, temp = limits.get("events"), limits.get("temp_bytes")
    running = [row for row in report.job_states if row.state == "running"]
    dead = sum(row.dead_letters for row in report.reasons)
    tiles = [
        _tile(
            "Events in flight",
            str(report.events_in_flight),
            f"of {events.limit:g}" if events else "",
            _bar(events.used, events.limit) if events else "",
        ),
        _tile("Documents in progress", str(report.documents_in_progress), ""),
        _tile(
            "Jobs running",
            str(sum(row.jobs for row in running)),
            f"longest {duration(max((row.longest_seconds for row in running), default=0.0))}",
        ),
        _tile(
            "Oldest uncommitted",
            duration(report.oldest_uncommitted_seconds),
            f"{len(report.partitions)} partitions",
        ),
        _tile("Lag", f"{sum(lags)}" if lags else "unknown", "records"),
        _tile(
            "Temporary files",
            size(temp.used) if temp else "unknown",
            f"of {size(temp.limit)}" if temp else "",
            _bar(temp.used, temp.limit) if temp else "",
        ),
        _tile("Dead letters", str(dead), "since the start"),
    ]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _causes(report: Report) -> str:
    shown = [row for row in report.causes if row.documents]
    most = max((row.documents for row in shown), default=1)
    rows = [
        [
            (escape(row.cause.replace("_", " ")), ""),
            (_bar(row.documents, most, warn=False), ""),
            (str(row.documents), "number"),
            (duration(row.longest_seconds), "number"),
        ]
        for row in shown
    ]
    names = ("held by", "", "documents", "longest")
    return _table("Where documents are now", names, rows, empty="Nothing is in progress.")


def _job_states(report: Report) -> str:
    rows = [
        [
            (escape(row.provider), ""),
            (escape(row.state.replace("_", " ")), ""),
            (str(row.jobs), "number"),
            (duration(row.longest_seconds), "number"),
        ]
        for row in report.job_states
    ]
    return _table("Jobs by state", ("service", "state", "jobs", "longest"), rows, empty="None.")


def _partitions(report: Report) -> str:
    rows = [
        [
            (escape(f"{row.topic} / {row.partition}"), "wide"),
            ("unknown" if row.lag_records is None else str(row.lag_records), "number"),
            (duration(row.oldest_seconds), "number"),
            (str(row.in_flight), "number"),
            (str(row.done_ahead), "number"),
            ("none" if row.committed is None else str(row.committed), "number"),
            (str(row.position), "number"),
            (_bar(row.window_fullness, 1.0), ""),
            (_pill(row.paused.replace("_", " "), "warn") if row.paused else "no", ""),
        ]
        for row in report.partitions
    ]
    names = (
        *("partition", "lag", "oldest", "in flight", "done ahead"),
        *("committed", "position", "window", "paused"),
    )
    return _table("Partitions", names, rows, empty="This worker owns no partition.")


def _documents(report: Report) -> str:
    rows = [_document(row) for row in report.documents]
    shown = len(rows)
    note = f"the {DOCUMENTS_SHOWN} oldest" if report.documents_in_progress > shown else ""
    names = ("extraction", "stage", "held by", "for", "age", "failed attempts", "jobs")
    return _table("Documents", names, rows, note=note, empty="Nothing is in progress.")


def _document(row: DocumentRow) -> list[Cell]:
    identifier = escape(row.extraction_id) if row.extraction_id else "not known yet"
    jobs = "<br>".join(_job(job) for job in row.jobs) or "none"
    return [
        (identifier, "id"),
        (escape(row.stage.replace("_", " ")), ""),
        (escape(row.cause.replace("_", " ")), ""),
        (duration(row.cause_seconds), "number"),
        (duration(row.age_seconds), "number"),
        (str(row.failed_attempts), "number"),
        (jobs, "wide"),
    ]


def _job(job: JobRow) -> str:
    words = [f"{job.provider}: {job.state.replace('_', ' ')} for {duration(job.state_seconds)}"]
    if job.next_poll_seconds is not None:
        words.append(f"poll {job.polls + 1} in {duration(job.next_poll_seconds)}")
    return f"<span>{escape(', '.join(words))}</span>"


def _dependencies(report: Report) -> str:
    kinds = {"closed": "good", "open": "bad", "half_open": "warn"}
    rows = [
        [
            (escape(row.name), "wide"),
            (_pill(row.breaker.replace("_", " "), kinds[row.breaker]), ""),
            (duration(row.open_seconds) if row.breaker != "closed" else "-", "number"),
            (str(row.failures), "number"),
            (duration(row.gate_seconds) if row.gate_seconds > 0 else "open", "number"),
            (str(row.throttles), "number"),
            (f"{row.budget_left:.0f} / {row.budget_limit:.0f}", "number"),
        ]
        for row in report.dependencies
    ]
    names = ("dependency", "breaker", "for", "failures", "gate", "throttled", "retries left")
    return _table("Gates, breakers, budgets", names, rows)


def _limits(report: Report) -> str:
    rows = [
        [
            (escape(_limit_name(row)), "wide"),
            (_amount(row.used, row), "number"),
            (_amount(row.limit, row), "number"),
            (_bar(row.used, row.limit), "wide"),
            ("-" if row.waiting is None else str(row.waiting), "number"),
        ]
        for row in report.limits
    ]
    return _table("Limits", ("what", "used", "limit", "", "waiting"), rows)


def _limit_name(row: LimitRow) -> str:
    match row.kind:
        case "events":
            return "events in flight"
        case "documents":
            return "documents with local files"
        case "jobs":
            return f"jobs at {row.name}"
        case "temp_bytes":
            return "temporary files"


def _amount(value: float, row: LimitRow) -> str:
    return size(value) if row.kind == "temp_bytes" else f"{value:g}"


def _reasons(report: Report) -> str:
    rows = [
        [
            (
                f'<span>{escape(row.reason)}<br><span class="quiet">{escape(row.meaning)}</span>'
                "</span>",
                "wide",
            ),
            (str(row.dead_letters), "number wide"),
        ]
        for row in report.reasons
    ]
    names = ("reason", "count")
    return _table("Dead letters", names, rows, note="since the start", empty="None.")


def _dead_letters(report: Report) -> str:
    rows = [
        [
            (_clock(row.at), ""),
            (escape(row.stage.replace("_", " ")), ""),
            (escape(row.reason), "wide"),
            (escape(row.extraction_id) if row.extraction_id else "not known", "id"),
        ]
        for row in report.dead_letters[:RECENT_SHOWN]
    ]
    names = ("at (UTC)", "stage", "reason", "extraction")
    return _table("Latest dead letters", names, rows, empty="None.")


def _pools(report: Report) -> str:
    rows = [
        [
            (escape(row.name), ""),
            (str(row.running), "number"),
            (str(row.threads), "number"),
            (str(row.queued), "number"),
            (duration(row.oldest_seconds), "number"),
        ]
        for row in report.pools
    ]
    return _table("Threads", ("pool", "running", "of", "queued", "longest"), rows)


def _footer(report: Report, refresh: int) -> str:
    if refresh:
        how = f'Loads anew every {refresh} s; <a href="?refresh=0">stop</a>.'
    else:
        how = f'<a href="?refresh={REFRESH_S}">Load anew every {REFRESH_S} s</a>.'
    return (
        f"<footer>{how} <a href='?format=json'>JSON</a> · <a href='/metrics'>metrics</a> · "
        f"<a href='/ready'>ready</a> · <a href='/live'>live</a> · "
        f"{_clock(report.taken_at)} UTC</footer>"
    )


# -- building blocks -----------------------------------------------------------------------------


def _tile(name: str, value: str, more: str, bar: str = "") -> str:
    return (
        f'<div class="tile"><div class="name">{escape(name)}</div>'
        f'<div class="value">{escape(value)}</div><div class="more">{escape(more)}</div>{bar}</div>'
    )


def _table(
    title: str,
    names: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    note: str = "",
    empty: str = "Nothing.",
) -> str:
    """``rows`` hold HTML; everything else is text."""
    rows = list(rows)
    small = f" <small>{escape(note)}</small>" if note else ""
    heading = f"<h2>{escape(title)}{small}</h2>"
    if not rows:
        return f'<section>{heading}<div class="quiet">{escape(empty)}</div></section>'
    numeric = {i for i, (_, kind) in enumerate(rows[0]) if "number" in kind}
    head = "".join(
        f"<th{' class=number' if i in numeric else ''}>{escape(name)}</th>"
        for i, name in enumerate(names)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}" data-name="{escape(name)}">{html}</td>'
            for name, (html, kind) in zip(names, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<section>{heading}{table}</section>"


def _pill(text: str, kind: str = "") -> str:
    return f'<span class="pill {kind}">{escape(text)}</span>'


def _bar(used: float, limit: float, *, warn: bool = True) -> str:
    share = min(max(used / limit, 0.0), 1.0) if limit > 0 else 0.0
    high = " high" if warn and share >= HIGH else ""
    return f'<div class="bar{high}"><i style="width:{100 * share:.1f}%"></i></div>'


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``4 m 05 s``, ``2 h 03 m``, ``3 d 4 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 60:
        return f"{whole} s"
    if minutes < 60:
        return f"{minutes} m {whole % 60:02d} s"
    if hours < 48:
        return f"{hours} h {minutes % 60:02d} m"
    return f"{days} d {hours % 24} h"


def size(amount: float) -> str:
    """``512 B``, ``1.5 MiB``, ``4 GiB``."""
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{_three_digits(amount)} {unit}"
        amount /= 1024
    return f"{_three_digits(amount)} GiB"


def _three_digits(amount: float) -> str:
    return f"{amount:.0f}" if amount >= 100 else f"{amount:.3g}"
