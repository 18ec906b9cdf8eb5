"""What must hold of the rendered manifests beyond their syntax: each function names what is wrong.

Most tie a value to the setting or the rule that it follows from, so that neither can change alone.
"""

from __future__ import annotations

import inspect
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from consumers.cli import topics as topics_command
from consumers.extraction.sandbox.limits import SLOW_PROCESSES
from consumers.settings import SettingsError
from schemas.units import format_duration, parse_size
from tests.k8s.manifests import Document, Manifests

Problems = Iterator[str]

SECRET_KEYS = frozenset(
    {
        "kafka-username",
        "kafka-password",
        "store-access-key",
        "store-secret-key",
        "input-access-key",
        "input-secret-key",
        "extractor-token",
        "ca.pem",
    }
)
"""Of the secret ``bundle-extractor``, as README.md lists them."""
OPTIONAL_SECRETS = frozenset({"bundle-extractor-documents"})

GRACE_MARGIN_S = 15
PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.169.254/32", "fc00::/7")
)


def pods_are_restricted(manifests: Manifests) -> Problems:
    """The restricted Pod Security Standard, and a read-only root, a high uid and no token."""
    for name, template in manifests.workloads():
        spec = template["spec"]
        pod = spec.get("securityContext", {})
        wanted: dict[str, tuple[Any, Any]] = {
            "runAsNonRoot": (pod.get("runAsNonRoot"), True),
            "seccompProfile": (pod.get("seccompProfile", {}).get("type"), "RuntimeDefault"),
            "automountServiceAccountToken": (spec.get("automountServiceAccountToken"), False),
            "enableServiceLinks": (spec.get("enableServiceLinks"), False),
        }
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            wanted[field] = (spec.get(field, False), False)
        for container in _containers(spec):
            context = container.get("securityContext", {})
            where = container["name"]
            for field, value in (
                ("allowPrivilegeEscalation", False),
                ("readOnlyRootFilesystem", True),
                ("privileged", False),
            ):
                default = False if field == "privileged" else None
                wanted[f"{where}.{field}"] = (context.get(field, default), value)
            wanted[f"{where}.capabilities"] = (
                context.get("capabilities"),
                {"drop": ["ALL"]},
            )
        for field, (found, value) in wanted.items():
            if found != value:
                yield f"{name}: {field} is {found}, not {value}"
        if (pod.get("runAsUser") or 0) < 10_000:
            yield f"{name}: runAsUser is below 10000"
        for volume in spec.get("volumes", []):
            if not set(volume) & {"configMap", "secret", "emptyDir"}:
                yield f"{name}: volume {volume['name']} is of a kind that is not needed"


def resources_are_bounded(manifests: Manifests) -> Problems:
    for name, template in manifests.workloads():
        spec = template["spec"]
        for container in _containers(spec):
            resources = container.get("resources", {})
            for side, fields in (
                ("requests", ("cpu", "memory", "ephemeral-storage")),
                ("limits", ("memory", "ephemeral-storage")),
            ):
                for field in fields:
                    if field not in resources.get(side, {}):
                        yield f"{name}: no {side}.{field}"
        empty = [volume["emptyDir"] for volume in spec.get("volumes", []) if "emptyDir" in volume]
        sizes = [_bytes(one["sizeLimit"]) for one in empty if "sizeLimit" in one]
        if len(sizes) != len(empty):
            yield f"{name}: an emptyDir has no sizeLimit"
        limit = spec["containers"][0].get("resources", {}).get("limits", {})
        if "ephemeral-storage" in limit and sum(sizes) > _bytes(limit["ephemeral-storage"]):
            yield f"{name}: its emptyDirs may hold more than limits.ephemeral-storage"


def settings_fit_the_pod(manifests: Manifests) -> Problems:
    spec = manifests.worker()
    try:
        settings = manifests.settings()
    except SettingsError as error:
        yield f"settings: {error}"
        return
    container = spec["containers"][0]
    limits = container["resources"]["limits"]
    sandbox = (1 + SLOW_PROCESSES) * settings.sandbox.processes * settings.sandbox.memory
    if sandbox >= _bytes(limits["memory"]):
        yield "the sandbox processes may take more than limits.memory"
    sizes = {v["name"]: v["emptyDir"].get("sizeLimit") for v in spec["volumes"] if "emptyDir" in v}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    root = next((m for m in mounts if str(settings.temp.dir).startswith(f"{m}/")), None)
    if root is None or mounts[root] not in sizes:
        yield "temp.dir is on no emptyDir"
    elif settings.temp.quota >= _bytes(sizes[mounts[root]]):
        yield "temp.quota is not below the emptyDir's sizeLimit: the pod would be evicted first"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    if ports.get("http") != settings.http.port:
        yield "http.port is not the container's port"
    if settings.http.host != "0.0.0.0":
        yield "http.host: probes and Prometheus come from outside of the pod"
    environment = {one["name"]: one.get("value") for one in container.get("env", [])}
    if environment.get("BUNDLES_CONFIG") != "/etc/bundles/settings.toml":
        yield "BUNDLES_CONFIG does not name the mounted file"


def grace_follows_the_drain(manifests: Manifests) -> Problems:
    wanted = manifests.settings().worker.grace + GRACE_MARGIN_S
    found = manifests.worker().get("terminationGracePeriodSeconds")
    if found != wanted:
        yield f"terminationGracePeriodSeconds is {found}, not worker.grace + 15 s = {wanted:g}"


def probes_ask_the_right_question(manifests: Manifests) -> Problems:
    container = manifests.worker()["containers"][0]
    for probe, path in (("startup", "/live"), ("liveness", "/live"), ("readiness", "/ready")):
        found = container.get(f"{probe}Probe", {}).get("httpGet", {})
        if found.get("path") != path or found.get("port") != "http":
            yield f"{probe}Probe does not ask {path}"
    startup = container.get("startupProbe", {})
    if startup.get("periodSeconds", 10) * startup.get("failureThreshold", 3) < 60:
        yield "startupProbe gives a worker less than a minute to start"


def disruptions_are_one_at_a_time(manifests: Manifests) -> Problems:
    deployment = manifests.one("Deployment", "worker")
    strategy = deployment["spec"].get("strategy", {}).get("rollingUpdate", {})
    if (strategy.get("maxSurge"), strategy.get("maxUnavailable")) != (0, 1):
        yield "the roll-out is not maxSurge 0, maxUnavailable 1"
    budgets = [
        budget["spec"]
        for budget in manifests.of("PodDisruptionBudget")
        if _selects(budget["spec"]["selector"], deployment["spec"]["template"])
    ]
    if [budget.get("maxUnavailable") for budget in budgets] != [1]:
        yield "there is not one PodDisruptionBudget of the worker with maxUnavailable 1"


def network_is_closed(manifests: Manifests) -> Problems:
    policies = manifests.of("NetworkPolicy")
    if not any(
        policy["spec"]["podSelector"] == {}
        and set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        and not policy["spec"].get("ingress")
        and not policy["spec"].get("egress")
        for policy in policies
    ):
        yield "no policy denies everything by default"
    for policy in policies:
        name = policy["metadata"]["name"]
        for side, peers in (("ingress", "from"), ("egress", "to")):
            for rule in policy["spec"].get(side, []):
                if not rule.get(peers) or not rule.get("ports"):
                    yield f"{name}: an {side} rule without {peers} or ports opens everything"
                for peer in rule.get(peers, []):
                    yield from _open_block(name, peer.get("ipBlock"))


def the_worker_reaches_what_it_needs(manifests: Manifests) -> Problems:
    template = manifests.one("Deployment", "worker")["spec"]["template"]
    rules = [
        rule
        for policy in manifests.of("NetworkPolicy")
        if _selects(policy["spec"]["podSelector"], template)
        for rule in policy["spec"].get("egress", [])
    ]
    ports = {(port["protocol"], port["port"]) for rule in rules for port in rule["ports"]}
    settings = manifests.settings()
    kafka = int(settings.kafka.bootstrap_servers.split(",")[0].rpartition(":")[2])
    scheme, _, host = settings.store.endpoint.partition("://")
    store = int(host.partition(":")[2] or {"https": 443, "http": 80}[scheme])
    for what, protocol, port in (
        ("DNS", "UDP", 53),
        ("DNS", "TCP", 53),
        ("Kafka", "TCP", kafka),
        ("the store", "TCP", store),
        ("the extraction service", "TCP", 8088),
        ("remote extraction services", "TCP", 443),
    ):
        if (protocol, port) not in ports:
            yield f"no policy lets the worker reach {what} ({protocol} {port})"


def selectors_find_their_pods(manifests: Manifests) -> Problems:
    templates = dict(manifests.workloads())
    for document in manifests.documents:
        kind, name = document["kind"], document["metadata"]["name"]
        spec = document.get("spec", {})
        selector = spec.get("podSelector" if kind == "NetworkPolicy" else "selector")
        if kind == "Service":
            selector = {"matchLabels": selector}
        if not selector:
            continue
        found = [n for n, template in templates.items() if _selects(selector, template)]
        if len(found) != 1:
            yield f"{kind} {name} selects {found or 'nothing'}"


def references_lead_somewhere(manifests: Manifests) -> Problems:
    names = {(d["kind"], d["metadata"]["name"]) for d in manifests.documents}
    secrets = {d["metadata"]["name"] for d in manifests.of("Secret")} | {"bundle-extractor"}
    for name, template in manifests.workloads():
        for kind, reference in _references(template["spec"]):
            if kind == "Secret" and reference in secrets | OPTIONAL_SECRETS:
                continue
            if (kind, reference) not in names:
                yield f"{name}: there is no {kind} {reference}"
    for secret in manifests.of("Secret"):
        if unknown := set(secret["data"]) - SECRET_KEYS:
            yield f"Secret: nobody reads {sorted(unknown)}"
    for path in re.findall(r"/run/secrets/bundles/([\w.-]+)", str(manifests.documents)):
        if path not in SECRET_KEYS:
            yield f"a secret file {path} that README.md does not list"


def images_are_pinned(manifests: Manifests) -> Problems:
    for name, template in manifests.workloads():
        for container in _containers(template["spec"]):
            tag = container["image"].rpartition("/")[2].partition(":")[2]
            if tag in ("", "latest"):
                yield f"{name}: image {container['image']} has no version"


def scaling_never_loses_long_jobs(manifests: Manifests) -> Problems:
    """Only where KEDA is used. The reasons are in components/keda/scaled-object.yaml."""
    scaled = manifests.of("ScaledObject")
    if not scaled:
        return
    deployment = manifests.one("Deployment", "worker")
    (spec,) = (one["spec"] for one in scaled)
    if spec["scaleTargetRef"]["name"] != deployment["metadata"]["name"]:
        yield "it scales something else"
    if "replicas" in deployment["spec"]:
        yield "the Deployment has replicas, which each roll-out would set back to"
    if spec["minReplicaCount"] < 1:
        yield "minReplicaCount is below 1: a group that never committed would not wake"
    partitions = inspect.signature(topics_command.create).parameters["partitions"].default
    if spec["maxReplicaCount"] > partitions:
        yield f"maxReplicaCount is above the {partitions} partitions"
    fallback = spec.get("fallback", {})
    if fallback.get("behavior") != "currentReplicasIfHigher":
        yield "fallback may scale in while the lag is not known"
    yield from _slow_scale_in(manifests, spec)
    yield from _kafka_trigger(manifests, spec)


def _slow_scale_in(manifests: Manifests, spec: Document) -> Problems:
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    longest = max(p.polling.deadline_s for p in manifests.settings().policies.values())
    if behavior["stabilizationWindowSeconds"] < longest:
        yield f"it scales in sooner than a job may take ({format_duration(longest)})"
    if behavior["policies"] != [{"type": "Pods", "value": 1, "periodSeconds": 300}]:
        yield "it scales in by more than one pod in five minutes"


def _kafka_trigger(manifests: Manifests, spec: Document) -> Problems:
    settings = manifests.settings()
    (trigger,) = spec["triggers"]
    wanted: Mapping[str, str] = {
        "bootstrapServers": settings.kafka.bootstrap_servers,
        "consumerGroup": settings.kafka.group_id,
        "topic": settings.topics.events,
        "offsetResetPolicy": settings.kafka.start_from,
        "lagThreshold": str(settings.worker.documents),
        "activationLagThreshold": "0",
        "allowIdleConsumers": "false",
        "limitToPartitionsWithLag": "true",
        "excludePersistentLag": "false",
        "scaleToZeroOnInvalidOffset": "false",
    }
    for field, value in wanted.items():
        if trigger["metadata"].get(field) != value:
            yield f"{field} is {trigger['metadata'].get(field)}, not {value}"
    names = {one["metadata"]["name"] for one in manifests.of("TriggerAuthentication")}
    if trigger.get("authenticationRef", {}).get("name") not in names:
        yield "the trigger's credentials are missing"
    for authentication in manifests.of("TriggerAuthentication"):
        for reference in authentication["spec"]["secretTargetRef"]:
            if reference["key"] not in SECRET_KEYS:
                yield f"TriggerAuthentication: README.md does not list {reference['key']}"


INVARIANTS: tuple[Callable[[Manifests], Problems], ...] = (
    pods_are_restricted,
    resources_are_bounded,
    settings_fit_the_pod,
    grace_follows_the_drain,
    probes_ask_the_right_question,
    disruptions_are_one_at_a_time,
    network_is_closed,
    the_worker_reaches_what_it_needs,
    selectors_find_their_pods,
    references_lead_somewhere,
    images_are_pinned,
    scaling_never_loses_long_jobs,
)


def _containers(spec: Document) -> list[Document]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def _bytes(quantity: str) -> int:
    return int(parse_size(f"{quantity}B"))


def _selects(selector: Document, template: Document) -> bool:
    labels = template["metadata"]["labels"]
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())


def _references(spec: Document) -> Iterator[tuple[str, str]]:
    yield "ServiceAccount", spec["serviceAccountName"]
    for volume in spec.get("volumes", []):
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]
        if "secret" in volume:
            yield "Secret", volume["secret"]["secretName"]
    for container in _containers(spec):
        for source in container.get("envFrom", []):
            yield "ConfigMap", source["configMapRef"]["name"]


def _open_block(policy: str, block: Document | None) -> Problems:
    """A block for the public must leave out what is private; one for a site's network is narrow."""
    if block is None:
        return
    network = ipaddress.ip_network(block["cidr"])
    if network.prefixlen >= 16:
        return
    excluded = [ipaddress.ip_network(text) for text in block.get("except", [])]
    for private in PRIVATE:
        covered = any(
            private.version == one.version and private.subnet_of(one)  # type: ignore[arg-type]
            for one in excluded
        )
        if private.version == network.version and not covered:
            yield f"{policy}: {network} lets {private} be reached"
