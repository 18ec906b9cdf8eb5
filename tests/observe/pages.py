"""What the status page must be in a browser, whatever it shows."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from tests.observe.browser import DESKTOP, PHONE, Browser

TABLET = (1080, 800)

WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"
OUTSIDE = """
[...document.querySelectorAll('td, th, .pill, .bar, .tile *, header *, h2')].filter(element => {
  const box = element.closest('section, .tile') || document.querySelector('main');
  const inner = element.getBoundingClientRect(), outer = box.getBoundingClientRect();
  return inner.width > 0 && (inner.right > outer.right + 0.5 || inner.left < outer.left - 0.5);
}).map(element => element.outerHTML)
"""
COLOURS = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
TEXT = "document.body.innerText"


def problems_of(browser: Browser, url: str, shots: Path) -> tuple[list[str], str]:
    """What is wrong with the page at ``url``, and its text; pictures of it go to ``shots``."""
    found: list[str] = []
    colours: dict[str, list[str]] = {}
    for name, size in (("phone", PHONE), ("tablet", TABLET), ("desktop", DESKTOP)):
        for scheme in ("light", "dark"):
            what = f"{name}, {scheme}"
            browser.open(url, size, scheme)
            browser.screenshot(shots / f"status-{name}-{scheme}.png")
            found += [f"{what}: {complaint}" for complaint in browser.complaints()]
            width, room = browser.evaluate(WIDTHS)
            if width > room:
                found.append(f"{what}: {width} px wide in a window of {room} px")
            found += [f"{what}: sticks out of its box: {e}" for e in browser.evaluate(OUTSIDE)]
            found += [f"{what}: asks for {other}" for other in _foreign(browser, url)]
            colours[scheme] = browser.evaluate(COLOURS)
            found += [f"{what}: {problem}" for problem in _contrast(colours[scheme])]
    if colours["light"] == colours["dark"]:
        found.append(f"dark looks like light: {colours['light']}")
    return found, str(browser.evaluate(TEXT))


def _foreign(browser: Browser, url: str) -> list[str]:
    own = urlsplit(url).netloc
    return [
        other
        for other in browser.requested()
        if not other.startswith("data:") and urlsplit(other).netloc != own
    ]


def _contrast(colours: list[str]) -> list[str]:
    """WCAG asks for 4.5 between text and what is behind it; the body's is asked to have 7."""
    lighter, darker = sorted((_luminance(colour) for colour in colours), reverse=True)
    ratio = (lighter + 0.05) / (darker + 0.05)
    return [] if ratio >= 7 else [f"contrast of {colours} is {ratio:.1f}"]


def _luminance(colour: str) -> float:
    """Of ``rgb(r, g, b)``, as WCAG has it."""
    numbers = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [n / 12.92 if n <= 0.03928 else ((n + 0.055) / 1.055) ** 2.4 for n in numbers]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
