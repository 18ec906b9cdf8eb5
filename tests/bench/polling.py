"""Poll lag and polls per job: the learned schedule against doubling 0.5 → 8 s, in one worker, at
one service, on equal jobs at the same time.

The mix: documents of 2 to 32 pages, as many of each size; run time proportional to the pages with
log-normal noise. What is `modelled` needs no servers (`tests.bench.poll_model`): the mix with less
and more noise, and ``hard``: one size, log-normal of shape 1, where nothing but the distribution
can be known.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from typing import Any

from consumers.extraction.polling import Doubling, Learned
from schemas.policy import Polling
from tests import pdfs
from tests.bench import poll_model
from tests.bench.harness import ResultCounter, percentile, say, scenario, servers

POLLING = {"deadline_s": 900.0}
STRATEGIES = ("learned", "doubling")


def summary(lags: Sequence[float], runs: Sequence[float], polls: Sequence[int]) -> dict[str, Any]:
    shares = [lag / run for lag, run in zip(lags, runs, strict=True)]
    mean_run = sum(runs) / len(runs)
    return {
        "lag_p95_ratio": round(percentile(shares, 0.95), 4),
        "lag_p50_ratio": round(percentile(shares, 0.5), 4),
        "lag_p95_s": round(percentile(lags, 0.95), 3),
        "lag_p95_of_mean_run": round(percentile(lags, 0.95) / mean_run, 4),
        "polls_per_job": round(sum(polls) / len(polls), 2),
        "jobs": len(lags),
        "mean_run_s": round(mean_run, 2),
    }


def measured(given: argparse.Namespace) -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
    policies = {
        name: {"provider": name, "polling": {**POLLING, "strategy": name}} for name in STRATEGIES
    }
    in_flight = 2 * given.documents + 2 * given.warm_up
    settings: dict[str, Any] = {
        "worker": {"jobs_per_provider": in_flight},
        "kafka": {"in_flight_high": in_flight + 256, "in_flight_low": in_flight},
    }
    arguments = (
        *("--distribution", "mix", "--per-page", str(given.per_page)),
        *("--sigma", str(given.sigma), "--images", "1", "--seed", str(given.seed)),
    )
    with (
        servers() as running,
        scenario(running, *arguments, settings=settings, policies=policies, sources=0) as made,
    ):
        pipeline = made.pipeline
        configured = pipeline.tree()["providers"]["service"]
        pipeline.settings_tree = {
            **settings,
            "providers": {
                name: {**configured, "base_url": f"{pipeline.provider_url}/{name}/v1"}
                for name in STRATEGIES
            },
        }
        made.sources = [pipeline.upload(pdfs.pages(count)) for count in poll_model.PAGES]
        made.start_worker()
        counter = ResultCounter(pipeline)
        patience = 120 + 5 * given.per_page * max(poll_model.PAGES)
        for name in STRATEGIES:
            made.send(given.warm_up, prefix=f"warm-{name}", policy=name)
        counter.wait(2 * given.warm_up, patience)
        warm = len(made.stats()["finished"])
        say(f"warm: {warm} jobs")
        for name in STRATEGIES:
            made.send(given.documents, prefix=f"main-{name}", policy=name)
        counter.wait(2 * (given.warm_up + given.documents), patience)
        counter.close()
        finished = made.stats()["finished"][warm:]
    found, lags = {}, {}
    for name in STRATEGIES:
        own = [job for job in finished if job[5] == f"/{name}"]
        found[name] = summary([j[3] for j in own], [j[1] for j in own], [j[4] for j in own])
        lags[name] = [j[3] / j[1] for j in own]
        say(f"{name}: {found[name]}")
    return found, lags


def modelled(jobs: Sequence[poll_model.Job], known: int) -> dict[str, dict[str, Any]]:
    """After the first ``known`` jobs."""
    policy, found = Polling.model_validate(POLLING), {}
    for name, schedule in (("learned", Learned()), ("doubling", Doubling())):
        polled = poll_model.poll(schedule, policy, jobs)[known:]
        found[name] = summary(
            [p.lag_s for p in polled], [p.job.run_s for p in polled], [p.polls for p in polled]
        )
    return found


def hard(mean_s: float, seed: int) -> list[poll_model.Job]:
    rng = random.Random(seed)
    return [poll_model.Job(rng.lognormvariate(math.log(mean_s) - 0.5, 1.0), 1) for _ in range(6000)]


def run(given: argparse.Namespace) -> dict[str, Any]:
    models = {
        f"mix, sigma {sigma}": modelled(
            list(poll_model.mix(6000, per_page_s=given.per_page, sigma=sigma, seed=given.seed)),
            2000,
        )
        for sigma in (0.05, 0.1, 0.15, 0.25, 0.5)
    }
    for mean_s in (20, 60):
        models[f"hard, mean {mean_s} s"] = modelled(hard(mean_s, given.seed), 2000)
    result: dict[str, Any] = {"modelled": models, "per_page_s": given.per_page}
    if given.model_only:
        return result
    found, lags = measured(given)
    if given.plots:
        from tests.bench.plots import cdf

        cdf(lags, given.plots, "poll-lag", "poll lag as a share of the run time", log=True)
    return {**result, "sigma": given.sigma, **found["learned"], "doubling": found["doubling"]}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=800, help="per strategy")
    parser.add_argument("--warm-up", type=int, default=1200, help="documents learned from before")
    parser.add_argument("--per-page", type=float, default=2.0, help="seconds")
    parser.add_argument("--sigma", type=float, default=0.1, help="shape of the noise")
    parser.add_argument("--model-only", action="store_true", help="no servers")
