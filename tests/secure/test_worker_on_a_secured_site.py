"""A worker where TLS, SASL, ACLs and separate store identities are on, with what is documented as
needed and nothing more; and what it says where something is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.kafka_access import lacking
from consumers.kafka_client import kafka_client
from consumers.runtime.exits import Exit
from consumers.settings import Settings, load
from consumers.stores import open_store
from deploy.local.kafka import KafkaCluster
from deploy.local.kafka_security import KafkaSecurity
from deploy.local.process import ChildProcess
from sinks.objectstore import AccessDenied, StoreUnavailable
from tests import pdfs
from tests.pipeline import Pipeline, wait_for
from tests.secure.site import SERVICE, WORKER, Acl, Site, needed_acls, running_site

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]

ROLES = ("events", "results", "dead_letters", "ledger")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture
def pipeline(site: Site, tmp_path: Path) -> Iterator[Pipeline]:
    with site.pipeline(tmp_path / "pipeline") as prepared:
        yield prepared


def works(site: Site, pipeline: Pipeline, environment: dict[str, str]) -> None:
    """A worker with this environment gets a bundle to its result, its ledger and its commit; what
    it stores is encrypted, and no secret is in its log."""
    pipeline.start_fake_provider()
    pipeline.start_worker(wait=True, **environment)
    source = pipeline.upload(pdfs.one_page_scan(1))
    pipeline.send(pipeline.event("good", [source]))
    pipeline.send_raw(b"not an event")

    pipeline.wait_all_committed()

    found = pipeline.count()
    assert (len(found.resulted), found.lost, found.duplicated) == (1, 0, 0), pipeline.last_lines()
    assert [letter.reason for letter in pipeline.dead_letters()] == ["event_unparsable"]
    wait_for(pipeline.ledger, 30, "the ledger to be written")
    (manifests,) = found.manifests.values()
    stored = site.s3.client().stat_object(pipeline.output_bucket, manifests[0])
    assert stored.metadata is not None
    assert stored.metadata["x-amz-server-side-encryption"] == "AES256"
    log = (pipeline.folder / "worker-1.log").read_text()
    assert log
    assert [name for name, secret in site.passwords.items() if secret in log] == []


def refused(pipeline: Pipeline, environment: dict[str, str], *, code: Exit) -> str:
    """What a worker that cannot start says."""
    pipeline.start_fake_provider()
    worker = pipeline.start_worker(wait=False, **environment)
    return ended(worker, code)


def ended(worker: ChildProcess, code: Exit) -> str:
    wait_for(lambda: not worker.running, 90, "the worker to end", lambda: worker.last_lines(30))
    said = worker.last_lines(30)
    assert worker.returncode == code, said
    return said


def worker_settings(pipeline: Pipeline, environment: dict[str, str]) -> Settings:
    """Those of a worker process with this environment."""
    pipeline.settings()  # writes the file
    return load(config=pipeline.folder / "settings.toml", environment=environment)


# --- Kafka ---------------------------------------------------------------------------------------


def test_with_scram_and_exactly_the_documented_acls_it_works(
    site: Site, pipeline: Pipeline
) -> None:
    site.grant(WORKER, needed_acls(pipeline))
    works(site, pipeline, {**site.scram(), **site.store()})


def test_with_oauthbearer_and_exactly_the_documented_acls_it_works(
    site: Site, pipeline: Pipeline
) -> None:
    site.grant(SERVICE, needed_acls(pipeline))
    works(site, pipeline, {**site.oauth(), **site.store()})
    assert site.identity_provider.asked > 0
    assert set(site.identity_provider.scopes) == {"kafka"}


def test_with_a_client_certificate_and_exactly_the_documented_acls_it_works(
    site: Site, tmp_path: Path
) -> None:
    certificate, key = site.authority.issue("mtls-worker")
    security = KafkaSecurity(
        "SSL",
        keystore_pem=site.authority.issue_keystore("mtls-broker"),
        truststore_pem=site.authority.certificate,
        acls=True,
    )
    with KafkaCluster(security=security) as cluster:
        other = Site(
            site.folder, site.authority, cluster, site.s3, site.identity_provider, site.passwords
        )
        with other.pipeline(tmp_path / "pipeline") as pipeline:
            other.grant("CN=mtls-worker", needed_acls(pipeline))
            environment = {
                "BUNDLES_KAFKA__BOOTSTRAP_SERVERS": cluster.bootstrap,
                "BUNDLES_KAFKA__SECURITY_PROTOCOL": "ssl",
                "BUNDLES_KAFKA__SSL_CA_FILE": str(site.authority.certificate),
                "BUNDLES_KAFKA__SSL_CERTIFICATE_FILE": str(certificate),
                "BUNDLES_KAFKA__SSL_KEY_FILE": str(key),
            }
            works(site, pipeline, {**environment, **site.store()})


@pytest.mark.parametrize("role", ROLES)
def test_each_missing_permission_on_a_topic_is_named(
    site: Site, pipeline: Pipeline, role: str
) -> None:
    acls = needed_acls(pipeline)
    site.grant(WORKER, acls)
    settings = worker_settings(pipeline, site.scram())
    client = {"bootstrap.servers": site.kafka.bootstrap, **kafka_client(settings)}
    assert lacking(client, pipeline.topics) == []

    missing = next(acl for acl in acls if acl[1] == pipeline.topics.model_dump()[role])
    site.revoke(WORKER, missing)

    wait_for(lambda: lacking(client, pipeline.topics), 30, "the broker to know")
    (said,) = lacking(client, pipeline.topics)
    assert said.startswith(f"topics.{role}: ")
    assert f"grant it {missing[2]} there" in said


def test_a_worker_that_may_not_publish_does_not_start(site: Site, pipeline: Pipeline) -> None:
    acls = needed_acls(pipeline)
    site.grant(WORKER, [acl for acl in acls if acl[1] != pipeline.topics.results])
    said = refused(pipeline, {**site.scram(), **site.store()}, code=Exit.CONFIG)
    assert f"may not WRITE topic {pipeline.topics.results}" in said


def test_a_worker_that_may_not_join_its_group_says_what_to_grant(
    site: Site, pipeline: Pipeline
) -> None:
    acls: list[Acl] = [acl for acl in needed_acls(pipeline) if acl[0] == "TOPIC"]
    site.grant(WORKER, acls)
    said = refused(pipeline, {**site.scram(), **site.store()}, code=Exit.CONFIG)
    assert f"grant this identity READ on group {pipeline.group}" in said


def test_a_wrong_password_ends_the_start_and_is_not_shown(site: Site, pipeline: Pipeline) -> None:
    environment = {**site.scram(password="reader"), **site.store()}
    said = refused(pipeline, environment, code=Exit.CONFIG)
    assert "authentication" in said.lower()
    assert site.passwords["reader"] not in said


# --- store ---------------------------------------------------------------------------------------


def test_the_input_identity_reads_sources_and_can_change_nothing(
    site: Site, pipeline: Pipeline
) -> None:
    source = pipeline.upload(b"source")
    settings = worker_settings(pipeline, site.store())
    store = open_store(settings.store, input_only=True, threads=2)
    try:
        assert store.get("input", source["key"], max_bytes=100).body == b"source"
        with pytest.raises(AccessDenied):
            store.put("input", "new", b"x", content_type="text/plain")
        with pytest.raises(AccessDenied):
            store.delete("input", source["key"])
        with pytest.raises(AccessDenied):
            store.put("output", "new", b"x", content_type="text/plain")
    finally:
        store.close()


def test_a_store_whose_certificate_nobody_vouches_for_is_not_spoken_to(
    site: Site, pipeline: Pipeline
) -> None:
    other = site.folder / "other"
    other.mkdir(exist_ok=True)
    stranger = type(site.authority)(other, "another-ca")
    environment = {**site.store(), "BUNDLES_STORE__CA_FILE": str(stranger.certificate)}
    store = open_store(worker_settings(pipeline, environment).store, threads=2)
    try:
        with pytest.raises(StoreUnavailable):
            store.get("output", "key", max_bytes=10)
    finally:
        store.close()
