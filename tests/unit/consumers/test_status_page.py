"""The status page's numbers and words; how it looks is tried in a browser."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from consumers.health import Request
from consumers.status_page import Health, as_html, duration, size, status_page
from tests.observe.sample import busy, idle

HEALTHY = Health(live=True, ready=True, reason="", loop_age_seconds=0.1)
NOW = 1_760_000_000.0


def get(accept: str = "", **query: str) -> tuple[int, str, bytes]:
    return status_page(Request(accept, query), busy(NOW), HEALTHY, now=NOW)


@pytest.mark.parametrize(
    ("accept", "query", "kind"),
    [
        ("text/html,application/xhtml+xml,*/*;q=0.8", {}, "text/html; charset=utf-8"),
        ("", {}, "text/html; charset=utf-8"),
        ("application/json", {}, "application/json"),
        ("text/html", {"format": "json"}, "application/json"),
        ("application/json", {"format": "html"}, "text/html; charset=utf-8"),
    ],
)
def test_browsers_get_html_and_programs_json(accept: str, query: dict[str, str], kind: str) -> None:
    assert get(accept, **query)[:2] == (200, kind)


def test_the_json_has_everything_that_the_report_has() -> None:
    body = json.loads(get(format="json")[2])
    assert body["schema_version"] == 1
    assert body["health"]["ready"] is True
    assert body["documents"][1]["jobs"][0]["next_poll_seconds"] == 7.9
    assert {row["name"] for row in body["dependencies"]} >= {"store", "sandbox"}


def test_names_that_look_like_html_stay_text() -> None:
    report = replace(idle(NOW), group="<script>alert(1)</script>", host="a&b")
    page = as_html(report, HEALTHY, now=NOW, refresh=5)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "a&amp;b" in page


@pytest.mark.parametrize(("asked", "seconds"), [({}, "5"), ({"refresh": "30"}, "30")])
def test_it_loads_itself_anew(asked: dict[str, str], seconds: str) -> None:
    assert f'<meta http-equiv="refresh" content="{seconds}">' in get(**asked)[2].decode()


@pytest.mark.parametrize("asked", ["0", "-1", "never", "<b>", "²"])
def test_it_does_not_where_it_should_not(asked: str) -> None:
    assert "http-equiv" not in get(refresh=asked)[2].decode()


def test_an_old_report_says_that_the_loop_hangs() -> None:
    page = as_html(idle(NOW), HEALTHY, now=NOW + 75, refresh=0)
    assert "The control loop hangs: what follows is 1 m 15 s old." in page


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs() -> None:
    page = as_html(busy(time.time()), HEALTHY, now=time.time(), refresh=5)
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.6, "1 m 00 s"),
        (3599.9, "1 h 00 m"),
        (7265, "2 h 01 m"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (4 * 1024**3, "4 GiB")],
)
def test_sizes_too(amount: float, text: str) -> None:
    assert size(amount) == text
