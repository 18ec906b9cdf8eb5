"""`bundles doctor` where all is well, and where nothing is."""

from __future__ import annotations

import pytest

from deploy.local.process import free_ports
from schemas.topics import TOPIC_CONFIG
from tests.integration.conftest import MakePipeline
from tests.integration.operations.commands import bundles

pytestmark = pytest.mark.integration


def test_where_all_is_well_nothing_fails_and_nothing_is_left_behind(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(topic_config=TOPIC_CONFIG)
    pipeline.start_fake_provider()

    ran = bundles(pipeline, "doctor", "--json")

    verdicts = {check["name"]: check["verdict"] for check in ran.last["checks"]}
    assert [c for c in ran.last["checks"] if c["verdict"] == "failed"] == []
    assert ran.code == 0
    for name in (
        *("kafka", f"permissions on {pipeline.topics.events}", "store.output_bucket"),
        *("store.input_bucket", "conditional writes", "listing", "providers.service"),
        *("providers.service credential", f"topic {pipeline.topics.dead_letters}"),
        *("temp space", "libmagic", "sandbox"),
    ):
        assert verdicts[name] in ("ok", "warning"), ran.out
    assert not list(pipeline.store.list(pipeline.output_bucket, ""))


def test_each_thing_that_is_wrong_is_named_with_what_to_do(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    (nobody,) = free_ports(1)
    pipeline.provider_url = f"http://127.0.0.1:{nobody}"
    pipeline.settings_tree = {
        "kafka": {"bootstrap_servers": f"127.0.0.1:{nobody}"},
        "store": {"output_bucket": "no-such-bucket-here", "input_bucket": "nor-this-one"},
        "temp": {"min_free": "1000000GiB"},
        "sandbox": {"memory": "8MiB"},
    }

    ran = bundles(pipeline, "doctor", "--json")

    assert ran.code == 1
    failed = {c["name"]: c for c in ran.last["checks"] if c["verdict"] == "failed"}
    assert set(failed) == {
        "kafka",
        "store.output_bucket",
        "store",
        "store.input_bucket",
        "providers.service",
        "temp space",
        "sandbox",
    }
    assert all(check["fix"] for check in failed.values())
    assert "kafka.bootstrap_servers" in failed["kafka"]["fix"]
    assert "no-such-bucket-here" in failed["store.output_bucket"]["said"]
    assert "fake-token" not in ran.out + ran.err
