"""Single situations at the level of a whole worker: what happens, and what does not."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from consumers.runtime.exits import Exit
from schemas import topics as names
from schemas.reasons import Reason
from schemas.results import DOCUMENT_RESULT_TYPE
from tests.faults.conftest import MakeStage
from tests.faults.observer import judge
from tests.faults.stage import Servers, Stage
from tests.pipeline import TOKEN, wait_for
from tests.servers import create_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def done(stage: Stage) -> int:
    return len({result.identifier for result in stage.results(DOCUMENT_RESULT_TYPE)})


# -- processes that end or hang ----------------------------------------------------------------


def test_brokers_gone_then_sigterm_ends_within_the_grace_and_the_jobs_are_found_again(
    make_stage: MakeStage, servers: Servers
) -> None:
    stage = make_stage(
        *("--run-time", "4.0"),
        settings_tree={"worker": {"grace": "10s"}, "kafka": {"commit_interval": "60s"}},
    )
    worker = stage.start_worker()
    stage.bundles("finished", 1)
    wait_for(lambda: done(stage) == 1, 60, "a result", stage.last_lines)
    stage.bundles("running", 3)
    wait_for(
        lambda: (stage.metric(worker, "bundles_provider_jobs_in_flight") or 0) == 3,
        60,
        "three recorded jobs",
        stage.last_lines,
    )
    assert servers.cluster is not None
    servers.cluster.kill(1)
    worker.terminate()
    wait_for(lambda: not worker.running, 30, "the worker to end", stage.last_lines)

    assert worker.returncode == Exit.UNCOMMITTED
    assert "left to the next owner" in worker.log_file.read_text()
    servers.cluster.start_again(1)
    stage.start_worker()
    stage.wait_all_committed(90)
    found = judge(stage)
    assert (found.lost, found.dead_letters, found.jobs, found.jobs_resubmitted) == (0, 0, 4, 0)


def test_a_hung_control_loop_ends_the_process_with_its_stacks_and_a_peer_does_the_work(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(settings_tree={"worker": {"loop_stuck_after": "11s"}})
    hung = stage.start_doomed("--hang-at", "validated")
    peer = stage.start_worker()
    wait_for(
        lambda: (stage.metric(peer, "bundles_partitions_assigned") or 0) == 2,
        60,
        "both to have partitions",
        stage.last_lines,
    )
    stage.bundles("b", 12)
    wait_for(lambda: not hung.running, 60, "the watchdog", stage.last_lines)

    assert hung.returncode == Exit.LOOP_STUCK
    log = hung.log_file.read_text()
    assert "control loop has been stuck" in log
    assert "in hang" in log, "the stacks name where it hangs"
    stage.wait_all_committed(90)
    found = judge(stage)
    assert (found.lost, found.dead_letters, found.jobs_resubmitted) == (0, 0, 0)


def test_a_service_that_hangs_does_not_stop_the_control_loop(make_stage: MakeStage) -> None:
    stage = make_stage()
    worker = stage.start_worker()
    service = stage.provider
    assert service is not None
    os.kill(service.pid, signal.SIGSTOP)
    try:
        stage.bundles("b", 3)
        ages = []
        for _ in range(30):
            ages.append(stage.metric(worker, "bundles_loop_heartbeat_age_seconds"))
            time.sleep(0.1)
        assert None not in ages
        assert max(age for age in ages if age is not None) < 5
        assert stage.metric(worker, "bundles_pool_running") != 0, "calls do hang meanwhile"
    finally:
        os.kill(service.pid, signal.SIGCONT)
    stage.wait_all_committed(90)
    assert judge(stage).lost == 0


def test_temporary_files_of_a_killed_worker_are_swept_at_the_next_start(
    make_stage: MakeStage,
) -> None:
    stage = make_stage()
    stage.bundles("b", 1)
    killed = stage.start_doomed("--die-at", "fetched", wait=False)
    wait_for(lambda: not killed.running, 60, "its death", stage.last_lines)
    left = list((stage.folder / "temp").rglob("*.pdf"))
    assert left, "it died with a file on disk"
    worker = stage.start_worker()
    assert not [file for file in left if file.exists()]
    assert (stage.metric(worker, "bundles_temp_swept_bytes_total") or 0) > 0


# -- topics that refuse ------------------------------------------------------------------------


def test_a_dead_letter_that_is_too_large_moves_to_the_store_and_its_offset_passes(
    make_stage: MakeStage,
) -> None:
    # The headers alone fit; with them the value of the largest allowed event does not.
    stage = make_stage(topic_config={"dead_letters": {"max.message.bytes": "4000"}})
    value = b"not json " * 500
    stage.send_raw(value, key=b"k")
    worker = stage.start_worker()
    stage.wait_all_committed()

    (letter,) = stage.dead_letters()
    assert letter.reason == Reason.EVENT_UNPARSABLE
    assert letter.value == b""
    claim = letter.headers[names.DLQ_CLAIM_CHECK]
    key = claim.removeprefix(f"s3://{stage.output_bucket}/")
    assert stage.store.get(stage.output_bucket, key, max_bytes=2**20).body == value
    assert (stage.metric(worker, "bundles_dead_letter_publish_failures_total") or 0) > 0


def test_a_refused_result_holds_its_own_offset_and_is_published_once_it_may_be(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(topic_config={"results": {"max.message.bytes": "120"}}, partitions=8)
    stage.bundles("b", 1)
    (with_result,) = [p for p, end in stage.ends().items() if end]
    worker = stage.start_worker()
    wait_for(
        lambda: (stage.metric(worker, "bundles_publish_failures_total") or 0) > 0,
        60,
        "a refusal",
        stage.last_lines,
    )
    for number in range(16):  # so that other partitions get some
        stage.send_raw(b"garbage", key=f"k{number}".encode())
    others = {p: end for p, end in stage.ends().items() if end and p != with_result}
    assert others
    wait_for(
        lambda: all(stage.committed()[p] == end for p, end in others.items()),
        60,
        "the other partitions to pass",
        stage.last_lines,
    )
    assert stage.committed()[with_result] <= 0, "the refused one has not passed"
    assert done(stage) == 0

    _allow(stage, stage.topics.results, "max.message.bytes", "1000000")
    stage.wait_all_committed(60)
    found = judge_results(stage)
    assert found == (1, 1), "published, and the job was not repeated"


def judge_results(stage: Stage) -> tuple[int, int]:
    return done(stage), len([j for j in stage.provider_jobs() if j["event"] == "accepted"])


def _allow(stage: Stage, topic: str, name: str, value: str) -> None:
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_a_missing_dead_letter_topic_loses_no_dead_letter(make_stage: MakeStage) -> None:
    stage = make_stage()
    admin = stage.admin()
    admin.delete_topics([stage.topics.dead_letters])[stage.topics.dead_letters].result(30)
    worker = stage.start_worker()
    stage.send_raw(b"garbage", key=b"k", headers=[("h", b"\xff\x00")])
    wait_for(
        lambda: (stage.metric(worker, "bundles_dead_letter_publish_failures_total") or 0) > 0,
        90,
        "a refusal",
        stage.last_lines,
    )
    assert not stage.all_committed()

    create_topic(stage.bootstrap, stage.topics.dead_letters, 1)
    stage.wait_all_committed(90)
    (letter,) = stage.dead_letters()
    assert (letter.key, letter.value) == (b"k", b"garbage")


def test_a_dead_letter_that_is_the_last_record_is_not_sent_again_at_each_start(
    make_stage: MakeStage,
) -> None:
    stage = make_stage()
    stage.send_raw(b"garbage")
    for _ in range(2):
        worker = stage.start_worker()
        stage.wait_all_committed()
        worker.stop(40)
        assert worker.returncode == Exit.OK
    assert len(stage.dead_letters()) == 1


# -- services that refuse ----------------------------------------------------------------------

ALWAYS = 1_000_000
PATIENT = "Novak-1951-03-07"


def _refuse(stage: Stage, status: int) -> None:
    for operation in ("submit", "poll"):
        stage.service_fault(operation, kind="status", status=status, times=ALWAYS)


def _heal(stage: Stage) -> None:
    assert stage.provider is not None
    stage.provider.stop()
    stage.start_service("--run-time", "0.5")


def test_rejected_credentials_pause_the_intake_and_dead_letter_nothing(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(settings_tree={"kafka": {"in_flight_high": 4}})
    _refuse(stage, 401)
    worker = stage.start_worker()
    stage.bundles("b", 12)
    wait_for(
        lambda: (stage.metric(worker, "bundles_breaker_open") or 0) > 0,
        60,
        "the breaker",
        stage.last_lines,
    )
    wait_for(
        lambda: (stage.metric(worker, "bundles_partitions_paused") or 0) == stage.partitions,
        30,
        "the pause",
        stage.last_lines,
    )
    assert stage.http(worker, "/ready") is None
    assert stage.http(worker, "/live") is not None
    assert not stage.dead_letters()

    _heal(stage)
    stage.wait_all_committed(90)
    found = judge(stage)
    assert (found.lost, found.dead_letters, found.jobs, done(stage)) == (0, 0, 12, 12)
    assert worker.running


def test_a_storm_of_refusals_is_held_back_and_ends_without_a_new_event(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(settings_tree={"worker": {"storm_threshold": 3}})
    _refuse(stage, 422)
    worker = stage.start_worker()
    stage.bundles("b", 10)
    wait_for(
        lambda: (stage.metric(worker, "bundles_dead_letter_storm") or 0) == 1,
        60,
        "the storm",
        stage.last_lines,
    )
    before = len(stage.dead_letters())
    assert before <= 2

    _heal(stage)
    stage.wait_all_committed(120)
    assert len(stage.dead_letters()) == before, "nothing is dead-lettered while it is on"
    assert {letter.reason for letter in stage.dead_letters()} <= {Reason.PROVIDER_REFUSED}
    assert done(stage) == 10 - before


def test_throttled_calls_wait_as_told_and_spend_no_attempt(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.service_fault("submit", kind="status", status=429, headers={"Retry-After": "1"}, times=6)
    worker = stage.start_worker()
    stage.bundles("b", 1)
    stage.wait_all_committed(120)
    assert not stage.dead_letters(), "six throttles are more than the five attempts of a call"
    assert (stage.metric(worker, "bundles_provider_throttled_seconds_total") or 0) >= 6


def test_a_job_that_is_not_found_for_a_while_is_waited_for(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.service_fault("poll", kind="status", status=404, times=3)
    stage.start_worker()
    stage.bundles("b", 1)
    stage.wait_all_committed()
    assert judge_results(stage) == (1, 1)


def test_a_job_that_stays_unknown_is_made_once_more_and_then_given_up(
    make_stage: MakeStage,
) -> None:
    stage = make_stage()
    stage.service_fault("poll", kind="status", status=404, times=ALWAYS)
    stage.start_worker()
    stage.bundles("b", 1)
    stage.wait_all_committed()
    assert judge_results(stage) == (0, 2)
    assert [letter.reason for letter in stage.dead_letters()] == [Reason.JOB_FORGOTTEN]


def test_answers_that_get_lost_make_no_second_job(make_stage: MakeStage) -> None:
    stage = make_stage("--run-time", "0.5", "--lost-rate", "0.3")
    stage.start_worker()
    stage.bundles("b", 12)
    stage.wait_all_committed(120)
    assert judge_results(stage) == (12, 12)


# -- a slow one at the head --------------------------------------------------------------------


def _first_job_ends(stage: Stage, at: float) -> None:
    """Change what the service remembers of its first job (Unix seconds), while it is down."""
    assert stage.provider is not None
    stage.provider.stop()
    first, *others = stage.provider_log.read_text().splitlines()
    changed = json.dumps(json.loads(first) | {"finishes_at": at})
    stage.provider_log.write_text("\n".join([changed, *others]) + "\n")
    stage.start_service("--run-time", "0.3")


def test_a_long_job_at_the_head_holds_up_no_other_and_little_is_done_again_after_sigkill(
    make_stage: MakeStage,
) -> None:
    cap = 12
    limits = {"in_flight_high": cap, "in_flight_low": cap - 2}
    stage = make_stage("--run-time", "1800", partitions=1, settings_tree={"kafka": limits})
    stage.bundles("slow", 1)
    first = stage.start_worker()
    wait_for(lambda: stage.provider_jobs(), 60, "its job", stage.last_lines)
    _first_job_ends(stage, time.time() + 1800)
    stage.bundles("fast", 50)
    wait_for(lambda: done(stage) >= 20, 90, "twenty results", stage.last_lines)
    assert (stage.metric(first, "bundles_events_in_flight") or 0) <= cap
    assert (stage.metric(first, "bundles_oldest_inflight_seconds") or 0) > 1
    first.kill()
    second = stage.start_worker()
    wait_for(lambda: done(stage) >= 50, 90, "the fast ones", stage.last_lines)
    assert stage.committed()[0] <= 0, "the slow one is not done, so nothing is passed"
    assert (stage.metric(second, "bundles_provider_jobs_resumed_total") or 0) >= 1

    _first_job_ends(stage, time.time())
    stage.wait_all_committed(120)
    found = judge(stage)
    assert (found.lost, found.dead_letters, found.jobs, found.jobs_resubmitted) == (0, 0, 51, 0)
    # In flight at the kill, and finished since the commit before it.
    assert found.redelivered <= 2 * cap


# -- what must be nowhere ----------------------------------------------------------------------


def test_the_services_token_is_nowhere(make_stage: MakeStage) -> None:
    """Nor is what its answers say about patients. Afterwards a document gets through, so that there
    is a result, a job record and a manifest to look into."""
    stage = make_stage()
    said = f"{TOKEN}: no access to the scan of {PATIENT}"
    for operation in ("submit", "poll"):
        stage.service_fault(
            operation,
            kind="status",
            status=401,
            times=ALWAYS,
            headers={"WWW-Authenticate": said, "Location": f"http://{PATIENT}.example/{TOKEN}"},
            body=json.dumps({"error": {"code": said, "message": said}, "detail": said}),
        )
    worker = stage.start_worker()
    # First what the service has no part in: with its breaker open nothing is taken in.
    stage.send_raw(b"garbage")
    wait_for(lambda: stage.dead_letters(), 60, "a dead letter", stage.last_lines)
    stage.bundles("b", 1)
    wait_for(
        lambda: (stage.metric(worker, "bundles_breaker_open") or 0) > 0,
        60,
        "a refused call",
        stage.last_lines,
    )
    _heal(stage)
    wait_for(lambda: done(stage) == 1, 60, "a result", stage.last_lines)
    objects = [item.key for item in stage.store.list(stage.output_bucket, "")]
    records = [key for key in objects if key.endswith(".json")]
    assert len(records) == 2, "a job record and a manifest"
    written = [
        *objects,
        *(json.dumps(stage.manifest(key)) for key in records),
        str(stage.results()),
        worker.log_file.read_text(),
        stage.http(worker, "/metrics") or "",
        stage.http(worker, "/status") or "",
        str(stage.ledger()),
        str(stage.dead_letters()),
    ]
    for text in written:
        assert TOKEN not in text
        assert PATIENT not in text
        assert stage.s3_secret_key not in text
