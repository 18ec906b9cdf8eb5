"""The places at which a worker is made to die, exactly and without a hook in production code: the
objects of a built `Application` are wrapped from outside."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from consumers.app import Application

Action = Callable[[], None]


def die() -> None:
    """SIGKILL to ourselves: nothing of this process runs after it."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal may take a moment to arrive


def hang() -> None:
    """Block the calling thread for longer than any test runs."""
    time.sleep(3600)


@dataclass
class Fuse:
    """Acts once, when one subject (a job, a document) has passed the boundary ``count`` times."""

    count: int
    action: Action
    _passed: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def passed(self, subject: str = "") -> None:
        with self._lock:
            self._passed[subject] += 1
            blown = self._passed[subject] == self.count
        if blown:
            self.action()


@dataclass(frozen=True, slots=True)
class Boundary:
    meaning: str
    arm: Callable[[Application, Fuse], None]


def arm(application: Application, place: str, action: Action) -> None:
    """``place``: a name of `BOUNDARIES`, or ``name:N`` for the Nth time.

    :raises KeyError: no such boundary.
    """
    name, _, count = place.partition(":")
    BOUNDARIES[name].arm(application, Fuse(int(count or 1), action))


def _after(owner: Any, method: str, passed: Callable[..., None]) -> None:
    """Call ``passed`` with the same arguments once ``owner.method`` has returned."""
    original = getattr(owner, method)

    def wrapped(*args: Any, **named: Any) -> Any:
        result = original(*args, **named)
        passed(*args)
        return result

    setattr(owner, method, wrapped)


def _before(owner: Any, method: str, passed: Callable[..., None]) -> None:
    original = getattr(owner, method)

    def wrapped(*args: Any, **named: Any) -> Any:
        passed(*args)
        return original(*args, **named)

    setattr(owner, method, wrapped)


def _journal(application: Application, event: str, passed: Callable[[], None]) -> None:
    """``passed()`` after the line ``event`` was written: on the control thread."""

    def written(_: str, fields: dict[str, Any]) -> None:
        if fields.get("event") == event:
            passed()

    _after(application.services.journal, "write", written)


def _at_line(event: str) -> Callable[[Application, Fuse], None]:
    return lambda application, fuse: _journal(application, event, fuse.passed)


def _provider(application: Application) -> Any:
    (service,) = application.services.providers.values()
    return service.provider


def _consumed(application: Application, fuse: Fuse) -> None:
    _after(application.observer, "delivered", lambda *_: fuse.passed())


def _recorded(application: Application, fuse: Fuse) -> None:
    _after(application.services.records, "create", lambda *_: fuse.passed())


def _answered(application: Application, fuse: Fuse) -> None:
    _after(_provider(application), "submit", lambda *_: fuse.passed())


def _attached(application: Application, fuse: Fuse) -> None:
    _after(application.services.records, "update", lambda *_: fuse.passed())


def _polled(application: Application, fuse: Fuse) -> None:
    _after(_provider(application), "poll", fuse.passed)


def _images(application: Application, fuse: Fuse) -> None:
    _after(application.services.images, "write", lambda prefix, *_: fuse.passed(prefix))


def _manifest(application: Application, fuse: Fuse) -> None:
    _after(application.services.manifests, "write", lambda *_: fuse.passed())


def _publishing(application: Application, fuse: Fuse) -> None:
    results = application.settings.topics.results

    def handed_over(message: Any, *_: Any) -> None:
        if message.topic == results:
            fuse.passed()

    _after(application.scheduler._publisher, "publish", handed_over)


def _clean_up(application: Application, fuse: Fuse) -> None:
    _before(_provider(application), "forget", lambda *_: fuse.passed())


def _cleaned_up(application: Application, fuse: Fuse) -> None:
    _after(_provider(application), "forget", lambda *_: fuse.passed())


def _commit(application: Application, fuse: Fuse) -> None:
    """The first commits of a group only say where it starts: those do not count."""
    finished = _something_finished(application)
    committer = application.worker._committer
    _before(committer, "send", lambda _, due: fuse.passed() if due and finished() else None)


def _committed(application: Application, fuse: Fuse) -> None:
    finished = _something_finished(application)
    _after(application.observer, "committed", lambda *_: fuse.passed() if finished() else None)


def _something_finished(application: Application) -> Callable[[], bool]:
    seen: list[bool] = []
    _journal(application, "bundle_result_published", lambda: seen.append(True))
    return lambda: bool(seen)


BOUNDARIES = {
    "consumed": Boundary("an event was taken from Kafka", _consumed),
    "fetched": Boundary("a source is on the local disk", _at_line("fetched")),
    "validated": Boundary("the document passed its checks", _at_line("validated")),
    "recorded": Boundary("the job record stands, nothing was submitted", _recorded),
    "answered": Boundary("the service accepted the job, the record does not know", _answered),
    "attached": Boundary("the record holds the job's id", _attached),
    "polled": Boundary("the Nth poll of a job was answered", _polled),
    "images": Boundary("N images of a document are stored", _images),
    "manifest": Boundary("the manifest stands", _manifest),
    "publishing": Boundary("a result was handed to the Kafka client", _publishing),
    "result": Boundary("the broker has the document's result", _at_line("result_published")),
    "clean_up": Boundary("before the service is asked to forget the job", _clean_up),
    "cleaned_up": Boundary("the service forgot the job", _cleaned_up),
    "bundle_result": Boundary(
        "the broker has the bundle's result", _at_line("bundle_result_published")
    ),
    "commit": Boundary("before a commit is sent", _commit),
    "committed": Boundary("the broker acknowledged a commit", _committed),
}

EACH_ONCE = (
    "consumed",
    "fetched",
    "validated",
    "recorded",
    "answered",
    "attached",
    "polled:1",
    "polled:2",
    "polled:3",
    "images:2",
    "manifest",
    "publishing",
    "result",
    "clean_up",
    "cleaned_up",
    "bundle_result",
    "commit",
    "committed",
)
"""A round for each: ``images:2`` is half of the images of a document as the rounds make them."""
