"""docker-compose.yml, read as a file: what needs a Docker engine is in `make compose-check`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from consumers.settings import Settings, load
from deploy.extractor.settings import Settings as ExtractorSettings
from schemas.units import parse_duration, parse_size

ROOT = Path(__file__).resolve().parents[3]
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+):-([^}]*)\}")
OURS = ("setup", "extractor", "worker", "bundles")
LASTING = ("kafka", "store", "extractor", "worker", "prometheus", "grafana")


def with_defaults(text: str) -> str:
    return VARIABLE.sub(lambda found: found[2], text)


RAW: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
SERVICES: dict[str, Any] = yaml.safe_load(with_defaults((ROOT / "docker-compose.yml").read_text()))[
    "services"
]


def worker_settings() -> Settings:
    return load(environment=SERVICES["worker"]["environment"])


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_image_can_be_replaced_by_a_variable_and_is_pinned(service: str) -> None:
    found = VARIABLE.fullmatch(RAW[service]["image"])
    assert found is not None
    assert re.search(r":(?!latest$)[\w.-]+$", found[2])


def test_every_port_is_on_the_loopback_address_with_a_port_of_choice() -> None:
    published = [port for service in RAW.values() for port in service.get("ports", [])]
    assert published
    for port in published:
        assert re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z0-9]+_PORT:-\d+\}:\d+", port)


def test_workers_can_be_scaled() -> None:
    assert not {"ports", "container_name", "hostname"} & set(SERVICES["worker"])


@pytest.mark.parametrize("service", ["setup", "worker", "bundles"])
def test_every_setting_in_the_environment_is_known(service: str) -> None:
    """`load` refuses unknown names and wrong values."""
    environment = SERVICES[service]["environment"]
    assert all(isinstance(value, str) for value in environment.values())
    assert load(environment=environment).kafka.bootstrap_servers == "kafka:19092"


def test_the_extraction_service_gets_settings_that_it_knows() -> None:
    names = {n.removeprefix("EXTRACTOR_").lower() for n in SERVICES["extractor"]["environment"]}
    assert names <= set(ExtractorSettings.model_fields)


def test_worker_and_extraction_service_have_the_same_token() -> None:
    token = worker_settings().providers["selfhosted"].token
    assert token is not None
    assert token.get_secret_value() == SERVICES["extractor"]["environment"]["EXTRACTOR_TOKEN"]


def test_commands_on_the_host_reach_what_is_published() -> None:
    host = load(config=ROOT / "deploy/compose/host.toml", environment={})
    kafka, store = SERVICES["kafka"], SERVICES["store"]
    advertised = dict(
        one.split("://") for one in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    )
    assert host.kafka.bootstrap_servers == advertised["EXTERNAL"]
    assert host.kafka.bootstrap_servers == kafka["ports"][0].rpartition(":")[0]
    assert host.store.endpoint == f"http://{store['ports'][0].rpartition(':')[0]}"
    assert host.store.secret_key is not None
    assert host.store.secret_key.get_secret_value() == store["environment"]["MINIO_ROOT_PASSWORD"]
    inside = worker_settings()
    assert (host.store.input_bucket, host.topics) == (inside.store.input_bucket, inside.topics)


def test_workers_are_given_longer_to_stop_than_they_take() -> None:
    assert parse_duration(SERVICES["worker"]["stop_grace_period"]) > worker_settings().worker.grace


def test_temporary_files_fit_into_the_memory_that_holds_them() -> None:
    (mounted,) = SERVICES["worker"]["tmpfs"]
    options = dict(one.split("=") for one in mounted.partition(":")[2].split(","))
    size = parse_size(options["size"].replace("g", "GiB"))
    temp = worker_settings().temp
    assert temp.quota + temp.min_free <= size


@pytest.mark.parametrize("service", LASTING)
def test_what_runs_on_has_a_health_check(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("service", OURS)
def test_our_containers_have_no_more_rights_than_they_need(service: str) -> None:
    found = SERVICES[service]
    assert found["read_only"] is True
    assert found["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in found["security_opt"]
    assert found["init"] is True
    assert found["tmpfs"][0].startswith("/tmp:")


def test_workers_start_when_all_that_they_need_is_there() -> None:
    needs = SERVICES["worker"]["depends_on"]
    assert needs["setup"]["condition"] == "service_completed_successfully"
    assert needs["extractor"]["condition"] == "service_healthy"
    before = SERVICES["setup"]["depends_on"]
    assert {before[name]["condition"] for name in ("kafka", "store")} == {"service_healthy"}


def test_prometheus_looks_for_workers_where_they_are() -> None:
    (job,) = yaml.safe_load((ROOT / "deploy/observability/prometheus/prometheus.yml").read_text())[
        "scrape_configs"
    ]
    (found,) = job["dns_sd_configs"]
    assert found["names"] == ["worker"]
    assert found["port"] == worker_settings().http.port


@pytest.mark.parametrize("service", ["prometheus", "grafana"])
def test_mounted_configuration_is_there_and_read_only(service: str) -> None:
    mounted = [v for v in SERVICES[service]["volumes"] if v.startswith("./")]
    assert mounted
    for volume in mounted:
        source, _, mode = volume.split(":")
        assert (ROOT / source).exists()
        assert mode == "ro"


def test_grafana_is_told_the_address_that_its_data_source_asks_for() -> None:
    folder = ROOT / "deploy/observability/grafana/provisioning/datasources"
    wanted = set(re.findall(r"\$\{(\w+)\}", "".join(f.read_text() for f in folder.iterdir())))
    assert wanted <= set(SERVICES["grafana"]["environment"])


def test_only_what_old_docker_compose_understands_is_used() -> None:
    """1.29 refuses unknown keys; these came later."""
    text = (ROOT / "docker-compose.yml").read_text()
    document = yaml.safe_load(text)
    assert not {"name", "include", "version"} & set(document)
    for later in ("start_interval", "develop:", "service_started, restart", "pull_policy: daily"):
        assert later not in text
