"""Named situations, each driven to its end with the real task code in virtual time."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from consumers.extraction.forgetting import ATTEMPTS
from consumers.extraction.sandbox import AssemblyPart, SandboxCrashed
from consumers.runtime.pools import Job
from schemas.policy import Policy, Polling, Retries, Sharding
from tests.simulation.documents import SimSandbox, Trait, make_pdf
from tests.simulation.faults import OUTAGES, RETRY_AFTERS, Outage
from tests.simulation.scenario import (
    OUTPUT_BUCKET,
    DocumentPlan,
    EventPlan,
    Kill,
    KillPhase,
    Move,
    MoveKind,
    Scenario,
    SegmentPlan,
    SourcePlan,
    make_document,
    plain_policy,
)
from tests.simulation.service import ServiceKind
from tests.simulation.worker import SimWorker
from tests.simulation.world import Simulator, World
from tests.store_fakes import StoreFault


def one_document(trait: Trait = Trait.FINE) -> EventPlan:
    rng = random.Random("one document")
    return EventPlan(0.0, 0, "bundle", (make_document(rng, "document", trait, checksums=True),))


def scenario(*events: EventPlan, **changes: object) -> Scenario:
    settings: dict[str, object] = {
        "seed": 1,
        "events": events or (one_document(),),
        "policy": plain_policy(),
        "faults_until": 0.0,
    }
    return Scenario(**(settings | changes))  # type: ignore[arg-type]


def scripted(**queues: list[bool]) -> Callable[[World], None]:
    """Faults by name (`_` for `.`), exactly as listed, then never again."""

    def prepare(world: World) -> None:
        for name, queue in queues.items():
            world.faults.scripted[name.replace("__", ".")] = deque(queue)

    return prepare


def jobs_of(world: World) -> int:
    """Jobs ever made for the documents of the scenario."""
    return sum(1 for job in world.service.jobs.values() if job.document.name.startswith("document"))


def reasons(world: World) -> list[str]:
    return sorted(world.judge.dead_letters.values())


def extracted(world: World) -> bool:
    return ("bundle", "document") in world.judge.results


# -- the store -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [f for f in StoreFault if f is not StoreFault.SPURIOUS_412], ids=lambda f: f.name
)
def test_the_store_fails_each_of_the_first_requests(
    simulator: Simulator, fault: StoreFault
) -> None:
    def prepare(world: World) -> None:
        world.store.script.decide = first_requests(fault, 12)

    world = simulator.run(scenario(), prepare=prepare)
    assert extracted(world)
    assert jobs_of(world) == 1
    assert reasons(world) == []


def first_requests(fault: StoreFault, count: int) -> Callable[[str, str, str], StoreFault | None]:
    """Every second request fails until ``count`` have been made."""
    made = iter(range(10**9))
    return lambda operation, bucket, key: (
        fault if (number := next(made)) < count and number % 2 == 0 else None
    )


# -- the service -----------------------------------------------------------------------------------


@pytest.mark.parametrize("idempotent", [True, False])
def test_the_answer_to_a_submit_is_lost(simulator: Simulator, idempotent: bool) -> None:
    world = simulator.run(
        scenario(service=ServiceKind(idempotent=idempotent, finds=True)),
        prepare=scripted(submit__answer_lost=[True]),
    )
    assert extracted(world)
    assert jobs_of(world) == 1


def test_a_lost_answer_of_a_service_that_can_tell_nothing_costs_one_job_and_is_shown(
    simulator: Simulator,
) -> None:
    before = _value(simulator, "duplicate_submissions")
    world = simulator.run(
        scenario(service=ServiceKind(idempotent=False, finds=False)),
        prepare=scripted(submit__answer_lost=[True]),
    )
    assert extracted(world)
    assert jobs_of(world) == 2
    assert _value(simulator, "duplicate_submissions") == before + 1


def test_a_service_that_never_answers_submits_is_not_asked_for_ever(simulator: Simulator) -> None:
    world = simulator.run(
        scenario(service=ServiceKind(idempotent=False, finds=False)),
        prepare=scripted(submit__request_lost=[True] * 2),
    )
    assert reasons(world) == ["submit_uncertain"]
    assert jobs_of(world) == 0


def test_a_replay_of_an_uncertain_submit_allows_one_more(simulator: Simulator) -> None:
    world = simulator.run(
        scenario(service=ServiceKind(idempotent=False, finds=False), replay_resumable=True),
        prepare=scripted(submit__request_lost=[True] * 2),
    )
    assert reasons(world) == ["submit_uncertain"]
    assert extracted(world)
    assert jobs_of(world) == 1


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_404_for_a_while_is_waited_out(simulator: Simulator, times: int) -> None:
    world = simulator.run(scenario(), prepare=scripted(poll__not_found=[True] * times))
    assert extracted(world)
    assert jobs_of(world) == 1


def test_a_forgotten_job_is_followed_by_one_more(simulator: Simulator) -> None:
    world = simulator.run(scenario(), prepare=scripted(service__forgets=[True]))
    assert extracted(world)
    assert jobs_of(world) == 2


@pytest.mark.parametrize("times", [1, ATTEMPTS - 1])
def test_a_deletion_that_fails_is_made_again(simulator: Simulator, times: int) -> None:
    given_up = _value(simulator, "forget_failures")
    world = simulator.run(scenario(), prepare=scripted(forget__failed=[True] * times))
    assert extracted(world)
    assert _deleted(world) == [True]
    assert _value(simulator, "forget_failures") == given_up


def test_a_service_that_deletes_nothing_costs_no_document_and_is_counted(
    simulator: Simulator,
) -> None:
    given_up = _value(simulator, "forget_failures")
    world = simulator.run(scenario(), prepare=scripted(forget__failed=[True] * ATTEMPTS))
    assert extracted(world)
    assert reasons(world) == []
    assert _deleted(world) == [False]
    assert _value(simulator, "forget_failures") == given_up + 1


def _deleted(world: World) -> list[bool]:
    """Of each job of the scenario's documents: whether the service was made to delete it."""
    jobs = world.service.jobs.values()
    return [job.deleted_by_us for job in jobs if job.document.name.startswith("document")]


def test_a_service_that_forgets_every_job_ends_in_a_dead_letter(simulator: Simulator) -> None:
    world = simulator.run(scenario(), prepare=scripted(service__forgets=[True] * 2))
    assert reasons(world) == ["job_forgotten"]
    assert jobs_of(world) == 2


def test_statuses_that_nobody_knows_count_as_running(simulator: Simulator) -> None:
    world = simulator.run(scenario(), prepare=scripted(poll__unknown_status=[True] * 6))
    assert extracted(world)
    assert jobs_of(world) == 1


def test_urls_that_expire_at_once_are_renewed(simulator: Simulator) -> None:
    event = EventPlan(
        0.0, 0, "bundle", (make_document(random.Random(5), "document", checksums=True),)
    )
    world = simulator.run(scenario(event), prepare=scripted(download__expired=[True, True, True]))
    assert extracted(world)
    assert jobs_of(world) == 1


@pytest.mark.parametrize("retry_after", RETRY_AFTERS)
def test_a_throttle_with_any_retry_after_costs_no_attempt(
    simulator: Simulator, retry_after: float | None
) -> None:
    def prepare(world: World) -> None:
        world.faults.scripted["service.throttled"] = deque([True] * 8)
        world.service.retry_afters = (retry_after,)

    world = simulator.run(scenario(), prepare=prepare)
    assert extracted(world)
    assert jobs_of(world) == 1
    assert reasons(world) == []


def test_a_job_past_its_deadline_is_resumed_by_a_replay_and_not_started_again(
    simulator: Simulator,
) -> None:
    world = simulator.run(
        scenario(
            one_document(Trait.SLOW),
            policy=plain_policy(polling=Polling(deadline_s=600.0)),
            replay_resumable=True,
        )
    )
    assert reasons(world) == ["deadline"]
    assert extracted(world)
    assert jobs_of(world) == 1


def test_a_job_is_asked_about_before_its_result_can_be_gone(simulator: Simulator) -> None:
    rarely = Polling(strategy="doubling", multiplier=60.0, ceiling_s=2000.0, deadline_s=9000.0)
    world = simulator.run(
        scenario(
            service=ServiceKind(results_kept_seconds=60.0, run_seconds=(90.0, 100.0)),
            policy=plain_policy(polling=rarely),
        )
    )
    assert extracted(world)
    assert jobs_of(world) == 1


def test_one_worker_sends_no_more_polls_a_second_than_the_service_takes(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve jobs that come due once a second and more, calls that fail, 429s: two polls a second
    are sent, and what waits for its turn keeps the document's times adding up."""
    sent: dict[str, list[float]] = {}
    begin = SimWorker._begin

    def watched(worker: SimWorker, job: Job) -> None:
        if getattr(getattr(job.call, "func", None), "__name__", None) == "poll":
            sent.setdefault(worker.name, []).append(worker.clock.monotonic())
        begin(worker, job)

    def trouble(world: World) -> None:
        world.faults.scripted["service.throttled"] = deque([False, False, False, True] * 8)
        world.faults.scripted["poll.failed"] = deque([False, True] * 4)

    monkeypatch.setattr(SimWorker, "_begin", watched)
    rng = random.Random(8)
    documents = tuple(make_document(rng, f"document-{n}") for n in range(12))
    ended: list[dict[str, Any]] = []
    simulator.run(
        scenario(
            EventPlan(0.0, 0, "bundle", documents),
            policy=plain_policy(polling=Polling(ceiling_s=0.8)),
            service=ServiceKind(run_seconds=(20.0, 60.0)),
            job_slots=12,
            max_polls_per_second=2.0,
        ),
        prepare=trouble,
        on_journal=lambda message: ended.extend(
            [line] if (line := json.loads(message.value or b""))["event"] == "ended" else []
        ),
    )
    (times,) = sent.values()
    assert len(times) > 40
    assert min(later - earlier for earlier, later in pairwise(times)) >= 0.5 - 1e-6
    assert len(ended) == 12 + 1
    for line in ended:
        assert sum(line["causes"].values()) == pytest.approx(line["seconds"], abs=1e-4)
    assert max(line["causes"]["poll_lag"] for line in ended) > 2.0  # what the limit costs is seen


@pytest.mark.parametrize("max_resubmits", [0, 1])
def test_jobs_that_fail_for_want_of_credit_are_nobodys_fault(
    simulator: Simulator, max_resubmits: int
) -> None:
    opened = _value(simulator, "breaker_opens")

    def prepare(world: World) -> None:
        world.service.without_credit_until = 120.0

    policy = plain_policy(retries=Retries(max_resubmits=max_resubmits))
    world = simulator.run(scenario(policy=policy), prepare=prepare)
    assert extracted(world)
    assert reasons(world) == []
    assert _value(simulator, "breaker_opens") > opened
    assert jobs_of(world) < 20  # it is tried ever more rarely


def test_a_result_that_came_with_the_submits_answer_is_never_paid_for_twice(
    simulator: Simulator,
) -> None:
    for step in ALL_STEPS:
        phase: KillPhase = "before" if step % 2 else "after"
        world = simulator.run(
            scenario(seed=step, kills=(Kill(step, phase),), service=ServiceKind(synchronous=True)),
        )
        assert extracted(world)
        assert jobs_of(world) == 1, f"step {step}"


def test_expired_urls_of_a_result_that_cannot_be_read_again_are_asked_for_under_the_same_key(
    simulator: Simulator,
) -> None:
    world = simulator.run(
        scenario(service=ServiceKind(synchronous=True)),
        prepare=scripted(download__expired=[True] * 2),
    )
    assert extracted(world)
    assert jobs_of(world) == 1


def test_a_result_whose_urls_never_work_ends_in_a_dead_letter(simulator: Simulator) -> None:
    world = simulator.run(
        scenario(
            service=ServiceKind(synchronous=True),
            policy=plain_policy(retries=Retries(max_resubmits=0)),
        ),
        prepare=scripted(download__expired=[True] * 1000),
    )
    assert world.judge.dead_letters[0, 0, "document"] == "job_forgotten"
    assert jobs_of(world) == 1


def test_a_failed_job_is_followed_by_one_more_where_another_may_succeed(
    simulator: Simulator,
) -> None:
    world = simulator.run(scenario(one_document(Trait.FAILS_ONCE)))
    assert extracted(world)
    assert jobs_of(world) == 2


@pytest.mark.parametrize(
    "trait",
    [t for t in Trait if t not in (Trait.FINE, Trait.FAILS_ONCE, Trait.SEEN_DIFFERENTLY)],
    ids=str,
)
def test_a_bad_document_costs_that_document_only(simulator: Simulator, trait: Trait) -> None:
    rng = random.Random(trait)
    documents = (
        make_document(rng, "document", trait),
        make_document(rng, "neighbour"),
    )
    world = simulator.run(scenario(EventPlan(0.0, 0, "bundle", documents)))
    assert len(reasons(world)) == 1
    assert ("bundle", "neighbour") in world.judge.results
    assert not extracted(world)


def test_a_storm_of_refusals_ends_with_the_first_success_and_buys_nothing(
    simulator: Simulator,
) -> None:
    rng = random.Random(1)
    for trait, jobs in ((Trait.REFUSED, 0), (Trait.FAILS, 4)):
        events = [
            EventPlan(float(n), 0, f"b{n}", (make_document(rng, f"document-{n}", trait),))
            for n in range(4)
        ]
        world = simulator.run(scenario(*events, storm_threshold=2))
        assert len(reasons(world)) == 4
        assert jobs_of(world) == jobs


# -- systemic --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", OUTAGES)
def test_an_outage_dead_letters_nothing(simulator: Simulator, what: str) -> None:
    rng = random.Random(what)
    events = [
        EventPlan(5.0 * n, n % 2, f"bundle-{n}", (make_document(rng, f"document-{n}"),))
        for n in range(12)
    ]
    world = simulator.run(
        scenario(
            *events,
            partitions=2,
            workers=2,
            outages=(Outage(what, 10.0, 70.0),),
            faults_until=70.0,
        )
    )
    assert reasons(world) == []
    assert len(world.judge.results) == 12 + 2
    assert jobs_of(world) == 12


def test_everything_is_down_at_once_and_nothing_is_lost(simulator: Simulator) -> None:
    rng = random.Random(2)
    events = [
        EventPlan(3.0 * n, 0, f"bundle-{n}", (make_document(rng, f"document-{n}"),))
        for n in range(8)
    ]
    outages = tuple(Outage(w, 10.0, 70.0) for w in ("service", "store", "source", "broker"))
    world = simulator.run(scenario(*events, outages=outages, faults_until=70.0))
    assert reasons(world) == []
    assert jobs_of(world) == 8


# -- Kafka -----------------------------------------------------------------------------------------


def test_publishes_are_refused_for_a_while_and_the_job_is_not_done_again(
    simulator: Simulator,
) -> None:
    world = simulator.run(scenario(), prepare=scripted(publish__refused=[True] * 7))
    assert extracted(world)
    assert jobs_of(world) == 1


def test_a_dead_letter_that_is_too_large_keeps_its_bytes_in_the_store(
    simulator: Simulator,
) -> None:
    rng = random.Random(3)
    documents = (make_document(rng, "document", Trait.MISSING),)
    world = simulator.run(scenario(EventPlan(0.0, 0, "bundle", documents, padding=9000)))
    assert reasons(world) == ["source_missing"]  # its bytes were compared by the judge
    assert any(key.startswith("_dead-letters/") for key in world.store._buckets["extracted"])


# -- workers ---------------------------------------------------------------------------------------

ALL_STEPS = range(1, 22)


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_worker_dies_at_any_step(
    simulator: Simulator, phase: KillPhase, idempotent: bool
) -> None:
    for step in ALL_STEPS:
        world = simulator.run(
            scenario(
                seed=step,
                kills=(Kill(step, phase),),
                service=ServiceKind(idempotent=idempotent, finds=True),
            )
        )
        assert extracted(world)
        assert jobs_of(world) == 1, f"step {step}"
        assert reasons(world) == []
        # Whoever goes on cleans up too, also where the manifest stood already.
        assert all(job.deleted_by_us for job in world.service.jobs.values()), f"step {step}"


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("jobs", ["one", "shards"])
def test_a_document_that_engines_see_differently_is_submitted_rebuilt(
    simulator: Simulator, phase: KillPhase, jobs: str
) -> None:
    """A worker that dies at any step rebuilds the same bytes: nothing is submitted twice."""
    document = seen_differently()
    sharding = Sharding(max_pages_per_job=1) if jobs == "shards" else Sharding()
    for step in ALL_STEPS:
        world = simulator.run(
            scenario(
                EventPlan(0.0, 0, "bundle", (document,)),
                seed=step,
                kills=(Kill(step, phase),),
                service=ServiceKind(idempotent=True, finds=True),
                policy=plain_policy(sharding=sharding),
            )
        )
        assert extracted(world), f"step {step}"
        assert reasons(world) == []
        assert jobs_of(world) == (1 if jobs == "one" else 3)
        assert {job.document.trait for job in world.service.jobs.values()} == {Trait.FINE}


def seen_differently() -> DocumentPlan:
    body = make_pdf("document", 3, Trait.SEEN_DIFFERENTLY, random.Random(1))
    source = SegmentPlan(SourcePlan("uploads/document.pdf", body))
    return DocumentPlan("document", (source,), Trait.SEEN_DIFFERENTLY)


def rebuilding_fails(times: int, assemble: Any = SimSandbox.assemble) -> Any:
    """What to put in the place of `SimSandbox.assemble`."""
    failures = iter(range(times))

    def assemble_or_fail(sandbox: SimSandbox, parts: Sequence[AssemblyPart], *rest: Any) -> Any:
        if parts[0].rebuild and next(failures, None) is not None:
            raise SandboxCrashed
        return assemble(sandbox, parts, *rest)

    return assemble_or_fail


def test_what_cannot_be_rebuilt_is_submitted_as_it_is(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimSandbox, "assemble", rebuilding_fails(10))
    world = simulator.run(
        scenario(
            EventPlan(0.0, 0, "bundle", (seen_differently(),)),
            service=ServiceKind(reports_pages=False),
        )
    )
    assert extracted(world)
    submitted = [job.document for job in world.service.jobs.values()]
    assert [d.trait for d in submitted if d.name == "document"] == [Trait.SEEN_DIFFERENTLY]


def test_what_was_submitted_as_it_is_stays_so_when_it_could_be_rebuilt_later(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assemble = SimSandbox.assemble
    for step in ALL_STEPS:
        monkeypatch.setattr(SimSandbox, "assemble", rebuilding_fails(1, assemble))
        world = simulator.run(
            scenario(
                EventPlan(0.0, 0, "bundle", (seen_differently(),)),
                kills=(Kill(step, "after"),),
                service=ServiceKind(idempotent=True, finds=True, reports_pages=False),
            )
        )
        assert extracted(world), f"step {step}"
        assert jobs_of(world) == 1


def test_rebuilding_waits_for_room_and_holds_none_meanwhile(
    simulator: Simulator,
) -> None:
    """There is room for two files: of three documents, each with its source, none
    could go on if all waited for room for a second file and kept the first."""
    documents = []
    for number in range(3):
        name = f"document-{number}"
        body = make_pdf(name, 3, Trait.SEEN_DIFFERENTLY, random.Random(1))
        source = SegmentPlan(SourcePlan(f"uploads/{name}.pdf", body))
        documents.append(DocumentPlan(name, (source,), Trait.SEEN_DIFFERENTLY))
    world = simulator.run(
        scenario(
            EventPlan(0.0, 0, "bundle", tuple(documents)),
            local_documents=3,
            temp_quota_bytes=2 * len(body) + 50,
        )
    )
    assert reasons(world) == []
    assert {d for b, d in world.judge.results if b == "bundle"} == {
        f"document-{number}" for number in range(3)
    }
    assert {job.document.trait for job in world.service.jobs.values()} == {Trait.FINE}


@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_worker_dies_at_any_step_of_a_document_in_shards(
    simulator: Simulator, phase: KillPhase
) -> None:
    rng = random.Random("shards")
    document = make_document(rng, "document", checksums=False)
    for step in range(1, 40, 3):
        world = simulator.run(
            scenario(
                EventPlan(0.0, 0, "bundle", (document,)),
                seed=step,
                kills=(Kill(step, phase), Kill(step + 20, phase)),
                policy=plain_policy(sharding=Sharding(max_pages_per_job=1)),
                job_slots=1,
                local_documents=1,
            )
        )
        assert extracted(world)


@pytest.mark.parametrize("kind", ["revoke", "lost", "seek", "bounce"])
def test_a_partition_changes_hands_at_any_moment(simulator: Simulator, kind: MoveKind) -> None:
    for number in range(40):
        world = simulator.run(
            scenario(seed=number, workers=2, moves=(Move(0.4 * number, 0, kind),))
        )
        assert extracted(world)
        assert jobs_of(world) == 1, f"moved at {0.4 * number} s"


@pytest.mark.parametrize("apart", [0.0, 0.001, 0.5, 3.0, 10.0, 60.0])
@pytest.mark.parametrize("idempotent", [True, False])
def test_two_workers_have_the_same_document(
    simulator: Simulator, apart: float, idempotent: bool
) -> None:
    (document,) = one_document().documents
    events = (
        EventPlan(0.0, 0, "bundle", (document,)),
        EventPlan(apart, 1, "bundle", (document,)),
    )
    for seed in range(10):
        world = simulator.run(
            scenario(
                *events,
                seed=seed,
                partitions=2,
                workers=2,
                service=ServiceKind(idempotent=idempotent, finds=False),
            )
        )
        assert extracted(world)
        assert jobs_of(world) == 1


def test_places_for_files_and_for_jobs_are_scarce_and_nobody_waits_for_ever(
    simulator: Simulator,
) -> None:
    rng = random.Random(4)
    events = [
        EventPlan(0.1 * n, 0, f"bundle-{n}", (make_document(rng, f"document-{n}"),))
        for n in range(10)
    ]
    for seed in range(5):
        world = simulator.run(
            scenario(
                *events,
                seed=seed,
                workers=2,
                moves=(Move(4.0, 0, "bounce"), Move(9.0, 0, "lost"), Move(15.0, 0, "revoke")),
                policy=plain_policy(
                    sharding=Sharding(max_pages_per_job=1), retries=Retries(max_resubmits=2)
                ),
                job_slots=1,
                local_documents=1,
            )
        )
        assert reasons(world) == []


# -- what the service could not give ---------------------------------------------------------------


def twice() -> tuple[EventPlan, EventPlan]:
    """The same event, the second time when the first has long ended."""
    (first,) = scenario().events
    return first, EventPlan(1000.0, 0, first.bundle_id, first.documents)


def policy_changes(to: Policy) -> Callable[[World], None]:
    """Between the two."""

    def change(world: World) -> None:
        for worker in world.workers:
            worker.services.policies = {"default": to}

    return lambda world: world.agenda.at(900.0, lambda: change(world))


@pytest.mark.parametrize("max_pages_per_job", [None, 1])
def test_what_the_service_could_not_give_is_told_and_costs_no_document(
    simulator: Simulator, max_pages_per_job: int | None
) -> None:
    """The judge holds manifest and result against what was left out."""
    before = _value(simulator, "provider_problems")
    lines: list[dict[str, Any]] = []
    source = SourcePlan("uploads/a.pdf", make_pdf("document", 3, Trait.FINE, random.Random(1)))
    plan = DocumentPlan("document", (SegmentPlan(source),))
    policy = plain_policy(sharding=Sharding(max_pages_per_job=max_pages_per_job))
    world = simulator.run(
        scenario(
            EventPlan(0.0, 0, "bundle", (plan,)),
            service=ServiceKind(leaves_out=True),
            policy=policy,
        ),
        on_journal=lambda message: lines.append(json.loads(message.value or b"")),
    )
    assert extracted(world)
    noted = [x for x in lines if x["event"] == "incomplete" and x["document_id"] == "document"]
    assert [(x["code"], x["problems"], x["stage"]) for x in noted] == [
        ("undecodable", 3, "persist")
    ]
    afterwards = sum(
        x["problems"]
        for x in lines
        if x["event"] == "incomplete" and x["document_id"] != "document"
    )
    assert _value(simulator, "provider_problems") == before + 3 + afterwards


def test_a_policy_may_have_no_use_for_a_document_of_which_something_is_missing(
    simulator: Simulator,
) -> None:
    world = simulator.run(
        scenario(
            policy=plain_policy(incomplete="fail"),
            service=ServiceKind(leaves_out=True),
        )
    )
    assert set(reasons(world)) == {"provider_incomplete"}
    stored = world.store._buckets[OUTPUT_BUCKET]
    assert all(key.startswith("_jobs/") for key in stored)
    assert jobs_of(world) == 1


def test_where_nothing_is_missing_that_policy_makes_no_difference(simulator: Simulator) -> None:
    world = simulator.run(scenario(policy=plain_policy(incomplete="fail")))
    assert extracted(world)
    assert reasons(world) == []


def test_what_was_refused_as_incomplete_is_taken_without_another_job_once_the_policy_allows_it(
    simulator: Simulator,
) -> None:
    world = simulator.run(
        scenario(
            *twice(),
            policy=plain_policy(incomplete="fail"),
            service=ServiceKind(leaves_out=True),
        ),
        prepare=policy_changes(plain_policy()),
    )
    assert reasons(world) == ["provider_incomplete"]
    assert extracted(world)
    assert jobs_of(world) == 1


def test_what_stands_already_is_judged_by_the_policy_of_now(simulator: Simulator) -> None:
    world = simulator.run(
        scenario(*twice(), service=ServiceKind(leaves_out=True)),
        prepare=policy_changes(plain_policy(incomplete="fail")),
    )
    assert extracted(world)
    assert world.judge.dead_letters[0, 1, "document"] == "provider_incomplete"
    assert jobs_of(world) == 1


def _value(simulator: Simulator, counter: str) -> float:
    children = getattr(simulator.metrics, counter)._metrics.values()
    return float(sum(child._value.get() for child in children))
