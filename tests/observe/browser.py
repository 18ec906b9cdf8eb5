"""Headless Chromium, driven over its debugging pipe: no driver, no library, no port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from time import monotonic
from typing import Any, Literal, Self

ANSWER_S = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PHONE = (390, 844)
DESKTOP = (1280, 900)


def program() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def missing() -> str | None:
    """Why there is no browser here; None where there is one."""
    return None if program() else "no chromium (Debian: apt-get install chromium)"


AS_3_AND_4 = """
import fcntl, os, sys
reading, writing = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3])
os.dup2(reading, 3), os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads its debugging commands from descriptor 3 and answers on 4."""


class PageFailed(AssertionError):
    """The browser says that the page, or the call, is wrong."""


@dataclass
class Browser:
    """One tab."""

    _to: int
    _from: int
    _session: str = ""
    _number: int = 0
    _buffer: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> Self:
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        return self

    def open(self, url: str, size: tuple[int, int], scheme: Literal["light", "dark"]) -> None:
        """Load ``url`` in a window of ``size`` (CSS pixels) for a user who likes ``scheme``."""
        self.events.clear()
        width, height = size
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)
        answer = self._call("Page.navigate", url=url)
        if "errorText" in answer:
            raise PageFailed(f"{url}: {answer['errorText']}")
        self._wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageFailed(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def screenshot(self, file: Path) -> bytes:
        """PNG of the whole page."""
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        png = base64.b64decode(data["data"])
        file.write_bytes(png)
        return png

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and refused or failed loads."""
        found = []
        for event in self.events:
            match event["method"]:
                case "Log.entryAdded":
                    entry = event["params"]["entry"]
                    if entry["level"] in ("error", "warning"):
                        found.append(f"{entry['level']}: {entry['text']}")
                case "Runtime.exceptionThrown" | "Network.loadingFailed":
                    found.append(json.dumps(event["params"]))
                case "Runtime.consoleAPICalled":
                    found.append(f"console: {event['params']['type']}")
        return found

    def requested(self) -> list[str]:
        """URLs that were asked for since `open`."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    # -- the pipe ----------------------------------------------------------------------------

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise PageFailed(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _wait_for(self, method: str) -> None:
        while not any(event["method"] == method for event in self.events):
            self._next(method)

    def _next(self, what: str) -> dict[str, Any]:
        deadline = monotonic() + ANSWER_S
        while b"\0" not in self._buffer:
            if not select([self._from], [], [], max(0.0, deadline - monotonic()))[0]:
                raise PageFailed(f"{what}: the browser did not answer in {ANSWER_S:g} s")
            piece = os.read(self._from, 1 << 16)
            if not piece:
                raise PageFailed(f"{what}: the browser ended")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def running() -> Iterator[Browser]:
    """Chromium with a profile of its own, gone afterwards."""
    chromium = program()
    assert chromium is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        argv = [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={profile}"),
            *("--remote-debugging-pipe", "about:blank"),
        ]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", AS_3_AND_4, str(to_read), str(from_write), *argv],
            pass_fds=(to_read, from_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(from_write)
        try:
            yield Browser(to_write, from_read).begin()
        finally:
            for descriptor in (to_write, from_read):
                os.close(descriptor)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
