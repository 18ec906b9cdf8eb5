"""The Kubernetes manifests: rendered, valid, and true to the settings and rules they rest on."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from consumers.kafka_access import GROUP_OPERATION, TOPIC_OPERATIONS
from consumers.metrics import version_of_this
from deploy.k8s import __main__ as generator
from tests.k8s import invariants
from tests.k8s.custom_resources import SCHEMAS
from tests.k8s.invariants import INVARIANTS, SECRET_KEYS
from tests.k8s.manifests import FOLDER, OVERLAYS, Document, Manifests, parse, render


@cache
def rendered(overlay: str) -> str:
    return render(FOLDER / "overlays" / overlay)


@cache
def parsed(overlay: str) -> Manifests:
    return parse(rendered(overlay))


def manifests(overlay: str = "production") -> Manifests:
    """A copy of its own, to be changed."""
    return copy.deepcopy(parsed(overlay))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_valid_for_kubernetes(overlay: str, tmp_path: Path) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(rendered(overlay))
    program = Path(sys.executable).with_name("kubernetes-validate")
    ran = subprocess.run(
        [str(program), "--strict", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    unknown = set(re.findall(r"Couldn't find schema for kind (\w+)", said))
    assert unknown <= set(SCHEMAS), "validated by nobody"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_custom_resource_has_only_fields_that_exist(overlay: str) -> None:
    for kind, schema in SCHEMAS.items():
        for document in manifests(overlay).of(kind):
            errors = [e.json_path for e in Draft202012Validator(schema).iter_errors(document)]
            assert errors == [], kind


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda one: one.__name__)
def test_it_holds(invariant: Callable[[Manifests], Any], overlay: str) -> None:
    assert list(invariant(manifests(overlay))) == []


def test_the_prometheus_rule_is_the_rules_that_prometheus_loads() -> None:
    assert generator.prometheus_rule() == generator.TARGET.read_text(), "run python -m deploy.k8s"
    names = [group["name"] for group in generator.groups()]
    assert len(names) == len(set(names))


def test_production_scales_and_is_watched() -> None:
    kinds = {document["kind"] for document in manifests().documents}
    assert {"ScaledObject", "TriggerAuthentication", "PodMonitor", "PrometheusRule"} <= kinds


def test_the_job_that_prometheus_sees_is_the_one_the_alerts_name() -> None:
    worker = manifests().one("Deployment", "worker")["spec"]["template"]
    label = manifests().one("PodMonitor", "worker")["spec"]["jobLabel"]
    job = worker["metadata"]["labels"][label]
    assert f'job="{job}"' in generator.prometheus_rule()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_images_are_of_this_version(overlay: str) -> None:
    images = {
        container["image"].rpartition(":")[2]
        for _, template in manifests(overlay).workloads()
        for container in template["spec"]["containers"]
    }
    assert images == {version_of_this()}


def test_the_readme_lists_every_key_of_the_secret() -> None:
    readme = (FOLDER / "README.md").read_text()
    section = readme.partition("## The secret")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `([\w.-]+)` \|", section, re.MULTILINE))
    assert listed == SECRET_KEYS


def test_the_readme_lists_the_permissions_that_a_worker_is_tested_with() -> None:
    readme = (FOLDER / "README.md").read_text()
    section = readme.partition("## What a worker may do on Kafka")[2].partition("\nDESCRIBE")[0]
    listed = dict(re.findall(r"(?m)^\| ([a-z -]+?) \| ([A-Z]+) \|$", section))
    topics = {
        f"{role.replace('_letters', '-letter')} topic": operation
        for role, operation in TOPIC_OPERATIONS.items()
    }
    assert listed == {**topics, "consumer group": GROUP_OPERATION}


def test_production_speaks_tls_with_secrets_from_files() -> None:
    settings = manifests().settings()
    assert settings.kafka.security_protocol == "sasl_ssl"
    assert settings.store.endpoint.startswith("https://")
    assert "Secret" not in {document["kind"] for document in manifests().documents}


# --- that a broken manifest is noticed -----------------------------------------------------------


def _container(documents: Manifests) -> Document:
    container: Document = documents.worker()["containers"][0]
    return container


def _metadata(documents: Manifests) -> Document:
    found: Document = documents.one("ScaledObject", "worker")["spec"]["triggers"][0]["metadata"]
    return found


def _policy(documents: Manifests, name: str) -> Document:
    spec: Document = documents.one("NetworkPolicy", name)["spec"]
    return spec


BREAKAGES: dict[str, tuple[Callable[[Manifests], Any], Callable[[Manifests], Any]]] = {
    "runs as root": (
        invariants.pods_are_restricted,
        lambda m: m.worker()["securityContext"].update(runAsUser=0),
    ),
    "root file system can be written": (
        invariants.pods_are_restricted,
        lambda m: _container(m)["securityContext"].pop("readOnlyRootFilesystem"),
    ),
    "variables from names of services": (
        invariants.pods_are_restricted,
        lambda m: m.worker().pop("enableServiceLinks"),
    ),
    "host path": (
        invariants.pods_are_restricted,
        lambda m: m.worker()["volumes"].append({"name": "x", "hostPath": {"path": "/"}}),
    ),
    "no bound on the disk": (
        invariants.resources_are_bounded,
        lambda m: _container(m)["resources"]["limits"].pop("ephemeral-storage"),
    ),
    "emptyDir without a bound": (
        invariants.resources_are_bounded,
        lambda m: m.worker()["volumes"][-1]["emptyDir"].clear(),
    ),
    "quota beyond the emptyDir": (
        invariants.settings_fit_the_pod,
        lambda m: m.worker()["volumes"][-1]["emptyDir"].update(sizeLimit="2Gi"),
    ),
    "unknown setting": (
        invariants.settings_fit_the_pod,
        lambda m: m.one("ConfigMap", "bundle-extractor-site")["data"].update(BUNDLES_X__Y="1"),
    ),
    "grace that follows nothing": (
        invariants.grace_follows_the_drain,
        lambda m: m.worker().update(terminationGracePeriodSeconds=30),
    ),
    "liveness by readiness": (
        invariants.probes_ask_the_right_question,
        lambda m: _container(m)["livenessProbe"]["httpGet"].update(path="/ready"),
    ),
    "two workers down at once": (
        invariants.disruptions_are_one_at_a_time,
        lambda m: m.one("PodDisruptionBudget", "worker")["spec"].update(maxUnavailable=2),
    ),
    "metadata service within reach": (
        invariants.network_is_closed,
        lambda m: _policy(m, "worker-providers")["egress"][0]["to"][0]["ipBlock"]["except"].remove(
            "169.254.0.0/16"
        ),
    ),
    "egress to anywhere": (
        invariants.network_is_closed,
        lambda m: _policy(m, "worker-data")["egress"][0].pop("to"),
    ),
    "open by default": (
        invariants.network_is_closed,
        lambda m: _policy(m, "default-deny").update(policyTypes=["Ingress"]),
    ),
    "no way to Kafka": (
        invariants.the_worker_reaches_what_it_needs,
        lambda m: _policy(m, "worker-data")["egress"].pop(0),
    ),
    "a selector of nothing": (
        invariants.selectors_find_their_pods,
        lambda m: m.one("Service", "extractor")["spec"]["selector"].update({"x": "y"}),
    ),
    "a secret nobody makes": (
        invariants.references_lead_somewhere,
        lambda m: m.worker()["volumes"][1]["secret"].update(secretName="other"),
    ),
    "latest": (
        invariants.images_are_pinned,
        lambda m: _container(m).update(image="bundle-extractor:latest"),
    ),
    "scaled to zero": (
        invariants.scaling_never_loses_long_jobs,
        lambda m: m.one("ScaledObject", "worker")["spec"].update(minReplicaCount=0),
    ),
    "lag of another group": (
        invariants.scaling_never_loses_long_jobs,
        lambda m: _metadata(m).update(consumerGroup="other"),
    ),
    "lag that stands still is ignored": (
        invariants.scaling_never_loses_long_jobs,
        lambda m: _metadata(m).update(excludePersistentLag="true"),
    ),
    "replicas of two masters": (
        invariants.scaling_never_loses_long_jobs,
        lambda m: m.one("Deployment", "worker")["spec"].update(replicas=3),
    ),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_manifest_is_noticed(breakage: str) -> None:
    invariant, break_it = BREAKAGES[breakage]
    broken = manifests()
    break_it(broken)
    assert list(invariant(broken))


def test_a_misspelt_field_of_a_custom_resource_is_noticed() -> None:
    scaled = manifests().one("ScaledObject", "worker")
    scaled["spec"]["minReplicasCount"] = scaled["spec"].pop("minReplicaCount")
    assert list(Draft202012Validator(SCHEMAS["ScaledObject"]).iter_errors(scaled))
