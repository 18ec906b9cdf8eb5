"""Poll lag and polls per job: the learned schedule against doubling 0.5 → 8 s, in one worker, at
one service, on equal jobs at the same time.

The mix: documents of 2 to 32 pages, as many of each size; run time proportional to the pages with
log-normal noise. What is `modelled` needs no servers (`tests.bench.poll_model`): the mix with less
and more noise, and ``hard``: one size, log-normal of shape 1, where nothing but the distribution
can be known. ``lag_p95_ratio_at_best`` beside a learned figure is what no schedule can beat with
the polls that doubling makes (`tests.bench.poll_optimum`).
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
from tests.bench.poll_optimum import Size, least_lag_ratio

POLLING = {"deadline_s": 900.0}
PATIENT = Polling.model_validate({**POLLING, "deadline_s": 100_000.0})
"""For what is modelled: what is asked at a deadline says nothing of a schedule."""
STRATEGIES = ("learned", "doubling")
SPREADS = (0.05, 0.1, 0.15, 0.25, 0.5, 1.0)


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


def modelled(jobs: Sequence[poll_model.Job], known: int, sizes: Sequence[Size]) -> dict[str, Any]:
    """After the first ``known`` jobs, which are drawn from ``sizes``."""
    found: dict[str, Any] = {}
    for name, schedule in (("learned", Learned()), ("doubling", Doubling())):
        polled = poll_model.poll(schedule, PATIENT, jobs)[known:]
        found[name] = summary(
            [p.lag_s for p in polled], [p.job.run_s for p in polled], [p.polls for p in polled]
        )
    return found | at_best(sizes, found["doubling"])


def at_best(sizes: Sequence[Size], doubling: dict[str, Any]) -> dict[str, Any]:
    """What no schedule beats with the polls that ``doubling`` made."""
    least = least_lag_ratio(sizes, doubling["polls_per_job"], PATIENT)
    return {"lag_p95_ratio_at_best": round(least, 4)}


def sizes_of_mix(per_page_s: float, sigma: float) -> list[Size]:
    return [Size(per_page_s * pages, sigma) for pages in poll_model.PAGES]


def hard(size: Size, seed: int) -> list[poll_model.Job]:
    rng, mu = random.Random(seed), math.log(size.median_s)
    return [poll_model.Job(rng.lognormvariate(mu, size.sigma), 1) for _ in range(6000)]


def models(per_page_s: float, seed: int) -> dict[str, dict[str, Any]]:
    found = {}
    for sigma in SPREADS:
        jobs = list(poll_model.mix(6000, per_page_s=per_page_s, sigma=sigma, seed=seed))
        found[f"mix, sigma {sigma}"] = modelled(jobs, 2000, sizes_of_mix(per_page_s, sigma))
    for mean_s in (20, 60):
        size = Size(mean_s * math.exp(-0.5), 1.0)
        found[f"hard, mean {mean_s} s"] = modelled(hard(size, seed), 2000, [size])
    return found


def run(given: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {
        "modelled": models(given.per_page, given.seed),
        "per_page_s": given.per_page,
    }
    if given.model_only:
        return result
    found, lags = measured(given)
    if given.plots:
        from tests.bench.plots import cdf

        cdf(lags, given.plots, "poll-lag", "poll lag as a share of the run time", log=True)
    return {
        **result,
        "sigma": given.sigma,
        **found["learned"],
        **at_best(sizes_of_mix(given.per_page, given.sigma), found["doubling"]),
        "doubling": found["doubling"],
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=800, help="per strategy")
    parser.add_argument("--warm-up", type=int, default=1200, help="documents learned from before")
    parser.add_argument("--per-page", type=float, default=2.0, help="seconds")
    parser.add_argument("--sigma", type=float, default=0.1, help="shape of the noise")
    parser.add_argument("--model-only", action="store_true", help="no servers")
