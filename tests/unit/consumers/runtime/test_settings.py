"""Wrong settings are refused with the name of the setting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from consumers.runtime.client import consumer_config
from consumers.runtime.settings import RuntimeSettings, SettingError

GOOD = RuntimeSettings(bootstrap_servers="b:1", group_id="g", topics=("t",))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"bootstrap_servers": ""}, "bootstrap_servers"),
        ({"topics": ()}, "topics"),
        ({"grace": 0.0}, "grace"),
        ({"window": 0}, "window"),
        ({"in_flight_low": 2000}, "in_flight_low"),
        ({"window_low": 1.0}, "window_low"),
        ({"group_protocol": "modern"}, "group_protocol"),
        ({"start_from": "middle"}, "start_from"),
        ({"loop_stuck_after": 0.0}, "loop_stuck_after"),
        ({"max_poll_interval": 0.0}, "max_poll_interval"),
    ],
)
def test_a_wrong_setting_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        replace(GOOD, **changes)


def test_the_revoke_deadline_is_the_smaller_share_of_poll_interval_and_grace() -> None:
    assert replace(GOOD, max_poll_interval=60.0, grace=25.0).revoke_deadline == 12.0
    assert replace(GOOD, max_poll_interval=120.0, grace=25.0).revoke_deadline == 12.5


def test_giving_up_and_taking_over_both_fit_into_one_poll_interval() -> None:
    short = replace(GOOD, max_poll_interval=10.0)
    assert short.revoke_deadline + short.assign_deadline < short.max_poll_interval


def test_the_client_never_commits_stores_or_picks_an_offset_by_itself() -> None:
    config = consumer_config(GOOD)
    assert config["enable.auto.commit"] is False
    assert config["enable.auto.offset.store"] is False
    assert config["auto.offset.reset"] == "error"


def test_the_consumer_protocol_is_given_no_setting_of_the_classic_one() -> None:
    config = consumer_config(replace(GOOD, group_protocol="consumer"))
    assert "partition.assignment.strategy" not in config
    assert "session.timeout.ms" not in config
    assert consumer_config(GOOD)["partition.assignment.strategy"] == "cooperative-sticky"


def test_properties_given_by_the_deployment_win() -> None:
    given = replace(GOOD, client={"security.protocol": "ssl"}, consumer={"fetch.wait.max.ms": 7})
    config = consumer_config(given)
    assert (config["security.protocol"], config["fetch.wait.max.ms"]) == ("ssl", 7)
