"""What documents that hang the parser cost the others.

    python -m tests.bench.hanging [--documents 100] [--hanging 5] [--rounds 4] [--json]

Rounds in turn with and without the documents that hang: all are announced at once, those that hang
spread over the good ones, to a service whose jobs take one second. The good ones of both kinds of
round are the same number. The last line is JSON: `ratio` compares the 95th percentile (seconds
from announcement to result, good documents only) of each round with them to that of the round
beside it, without; it is the median of these, because the machine may have other work, too;
`ended_otherwise` counts those that hang and did not end as `parse_timeout`. Ends with 1 when a goal
(`tests.bench.goals`) was missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from confluent_kafka import Producer

from schemas.reasons import Reason
from tests import documents_pdfs
from tests.bench.harness import (
    ResultCounter,
    Scenario,
    last_line,
    percentile,
    say,
    scenario,
    servers,
)
from tests.pipeline import wait_for

PATIENCE_S = 300.0
SETTLE_S = 5.0
SECTIONS = 3000
"""More than any engine reads within the limit of CPU time."""
SETTINGS = {"sandbox": {"processes": 2, "cpu_time": "5s"}}
POLLING = {"first_delay_s": 0.5, "multiplier": 1.5, "ceiling_s": 2.0}


def one_round(
    made: Scenario, counter: ResultCounter, label: str, good: int, hanging: int
) -> list[float]:
    """Seconds that each good document took. Returns when those that hang have ended, too."""
    pipeline = made.pipeline
    bad = pipeline.upload(documents_pdfs.xref_that_takes_long(SECTIONS)) if hanging else {}
    letters = len(pipeline.dead_letters())
    producer = Producer({"bootstrap.servers": pipeline.bootstrap, "acks": "1"})
    every = good // hanging if hanging else good + 1
    started = time.time()
    for number in range(good):
        sources = [(f"{label}-{number}", made.sources[number % len(made.sources)])]
        if hanging and number % every == 0 and number // every < hanging:
            sources.insert(0, (f"{label}-hangs-{number}", bad))
        for bundle, source in sources:
            event = json.dumps(pipeline.event(bundle, [source])).encode()
            producer.produce(pipeline.topics.events, event, bundle.encode())
    assert producer.flush(60) == 0
    counter.wait(len(counter.times) + good, PATIENCE_S)
    took = [
        at - started
        for subject, at in counter.seen.items()
        if subject.startswith(f"{label}-") and "hangs" not in subject
    ]
    assert len(took) == good
    wait_for(
        lambda: len(pipeline.dead_letters()) - letters >= hanging, PATIENCE_S, "those that hang"
    )
    return took


def run(documents: int, hanging: int, rounds: int) -> dict[str, Any]:
    p95: dict[bool, list[float]] = {False: [], True: []}
    with (
        servers() as running,
        scenario(
            running,
            *("--run-time", "1.0"),
            policies={"default": {"polling": POLLING}},
            settings=SETTINGS,
        ) as made,
    ):
        made.start_worker()
        counter = ResultCounter(made.pipeline)
        one_round(made, counter, "warm-up", 20, 0)
        for number in range(2 * rounds):
            # Each kind comes first as often: a round after another finds a busier machine.
            with_bad = number % 4 in (1, 2)
            label = f"round-{number}"
            made.pipeline.wait_all_committed(PATIENCE_S)
            time.sleep(SETTLE_S)
            took = one_round(made, counter, label, documents - hanging, hanging if with_bad else 0)
            p95[with_bad].append(percentile(took, 0.95))
            say(f"{label}: {hanging if with_bad else 0} hang, p95 {p95[with_bad][-1]:.2f} s")
        counter.close()
        reasons = [letter.reason for letter in made.pipeline.dead_letters()]
    ratios = [bad / good for bad, good in zip(p95[True], p95[False], strict=True)]
    return {
        "ratio": round(statistics.median(ratios), 3),
        "p95_with_s": [round(seconds, 2) for seconds in p95[True]],
        "p95_without_s": [round(seconds, 2) for seconds in p95[False]],
        "documents": documents,
        "hanging": hanging,
        "ended_otherwise": sum(reason != Reason.PARSE_TIMEOUT for reason in reasons),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hanging", description=__doc__)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--hanging", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of each kind")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--check", action="store_true", help="as without: a missed goal ends in 1")
    given = parser.parse_args()
    result = run(given.documents, given.hanging, given.rounds)
    line = last_line("hanging", None, result)
    print(json.dumps(line))
    return int(bool(line["missed"]))


if __name__ == "__main__":
    sys.exit(main())
