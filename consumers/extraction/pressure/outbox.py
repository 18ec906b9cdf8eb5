"""Whether Kafka takes what is published: pure, on monotonic seconds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Outbox:
    """Since when a topic has taken nothing. One record that is refused while others of its topic
    are taken is that record's trouble (its own offset waits), not the worker's."""

    _refusing_since: dict[str, float] = field(default_factory=dict)

    def refused(self, topic: str, now: float) -> None:
        self._refusing_since.setdefault(topic, now)

    def delivered(self, topic: str) -> None:
        self._refusing_since.pop(topic, None)

    def refusing_for(self, now: float) -> tuple[str, float] | None:
        """(topic, seconds) of the topic that has refused longest; None when none does."""
        if not self._refusing_since:
            return None
        topic, since = min(self._refusing_since.items(), key=lambda item: item[1])
        return topic, now - since
