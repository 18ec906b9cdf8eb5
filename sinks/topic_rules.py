"""How a topic should be set up, held against how it is. Pure: what the brokers said comes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.topics import OWN_HEADERS_BYTES, TOPIC_CONFIG
from schemas.units import format_duration

Config = Mapping[str, str]
"""A topic's settings by name, defaults included."""


@dataclass(frozen=True, slots=True)
class Placement:
    """``replicas``: of the partition that has the fewest; ``brokers``: in the cluster."""

    replicas: int
    brokers: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """Sentences. ``problems``: records are refused or dropped. ``warnings``: everything works, and
    something is lost sooner than the design has it, or would be with a broker."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def judge(role: str, config: Config, events_max_bytes: int, placement: Placement) -> Judgement:
    """``role``: as in `TopicSettings`. ``events_max_bytes``: what the events topic takes as it is
    set up now, as a dead letter has to take it. A setting that is not told is not judged."""
    problems = [*_size(role, config, events_max_bytes), *_clean_up(config)]
    warnings = _retention(role, config)
    replicas, in_sync = placement.replicas, int(config.get("min.insync.replicas", 0))
    if in_sync > replicas > 0:
        problems.append(
            f"min.insync.replicas is {in_sync} and there are {replicas} replica(s): nothing can be "
            "written"
        )
    elif placement.brokers > 1:
        warnings += _redundancy(replicas, in_sync, placement.brokers)
    return Judgement(tuple(problems), tuple(warnings))


def _size(role: str, config: Config, events_max_bytes: int) -> list[str]:
    name = "max.message.bytes"
    needed, why = int(TOPIC_CONFIG[role][name]), ""
    if role == "dead_letters" and events_max_bytes + OWN_HEADERS_BYTES > needed:
        needed = events_max_bytes + OWN_HEADERS_BYTES
        why = f" (an event may have {events_max_bytes}, and headers join it)"
    if name in config and int(config[name]) < needed:
        return [f"{name} is {config[name]}, at least {needed} is needed{why}"]
    return []


def _clean_up(config: Config) -> list[str]:
    if "compact" in config.get("cleanup.policy", ""):
        return ["cleanup.policy is compact, which drops records of a key: delete is needed"]
    return []


def _retention(role: str, config: Config) -> list[str]:
    name = "retention.ms"
    wanted = int(TOPIC_CONFIG[role][name])
    actual = int(config.get(name, wanted))
    if actual < 0 or actual >= wanted:  # negative: for ever
        return []
    return [f"{name} is {actual} ({_span(actual)}), less than the {_span(wanted)} of the design"]


def _span(milliseconds: int) -> str:
    return format_duration(round(milliseconds / 1000, 3))


def _redundancy(replicas: int, in_sync: int, brokers: int) -> list[str]:
    if replicas == 1:
        return [f"there is 1 replica on {brokers} brokers: records go with their broker"]
    if in_sync == 1:
        return [
            f"min.insync.replicas is 1 of {replicas} replicas: what one broker acknowledged may go "
            "with it; 2 is safe"
        ]
    if in_sync == replicas:
        return [
            f"min.insync.replicas is {in_sync} of {replicas} replicas: with one broker away nothing"
            " can be written"
        ]
    return []
