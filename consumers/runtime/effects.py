"""What a task may ask of whoever drives it.

A *task* is a generator: linear code that yields an effect and gets its outcome back (or has the
effect's exception raised at the ``yield``). It does no I/O and holds no thread while it waits, so
thousands of them fit one small process, and the simulator drives exactly the code that production
drives: `Scheduler` (threads, sockets, real time) and the simulator (virtual time, scripted faults)
are two drivers of the same tasks.

All task code runs on the one thread that owns the Kafka consumer; only the ``call`` of a `Perform`
runs elsewhere, in the pool that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from consumers.runtime.limiter import Limiter


@dataclass(frozen=True, slots=True)
class Perform:
    """Run ``call()`` in the bounded thread pool ``pool``; gives its return value or raises."""

    pool: str
    call: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Resume after ``seconds`` (monotonic). Costs one heap entry. A draining task ends here."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SafePoint:
    """A place where a draining task may be ended without leaving paid work unrecorded.

    Gives None at once in normal running.
    """


@dataclass(frozen=True, slots=True)
class Acquire:
    """Wait for a place in ``limiter``; gives a `Permit` whose ``release()`` the task must call in
    a ``finally``. Waiters are served fairly per ``share`` (a bundle), oldest share first.
    A draining task ends here unless ``through_drain``: for short critical sections whose end the
    task must still reach, such as recording the id of a job that was just paid for.
    """

    limiter: Limiter
    share: str
    through_drain: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A record to produce. ``headers`` values are text encoded as UTF-8 by the publisher, or the
    bytes as received."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, str | bytes]] = field(default=())


@dataclass(frozen=True, slots=True)
class Publish:
    """Produce ``message`` and wait for the broker's acknowledgement.

    Gives None; raises `PublishRefused` when the broker (or the local client) refused it.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class Together:
    """Drive ``children`` at the same time; gives one `Outcome` per child, in their order."""

    children: Sequence[Task]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child of `Together` ended: exactly one of the two is meaningful."""

    value: Any = None
    error: BaseException | None = None


Effect = Perform | Sleep | SafePoint | Acquire | Publish | Together
Task = Generator[Effect, Any, Any]


class PublishRefused(Exception):
    """A record was not acknowledged. ``code`` is the client's error name, e.g.
    ``MSG_SIZE_TOO_LARGE``; ``too_large`` says that sending the same bytes again cannot help."""

    def __init__(self, code: str, *, too_large: bool = False) -> None:
        super().__init__(f"the broker did not acknowledge the record: {code}")
        self.code = code
        self.too_large = too_large
