"""The container of `apache/kafka` is told all it needs: any variable replaces all its defaults."""

from tests.containers import kafka_environment


def test_clients_on_the_host_are_told_the_port_that_is_bound_there() -> None:
    settings = kafka_environment(23_456)
    listeners = dict(one.split("://") for one in settings["KAFKA_LISTENERS"].split(","))
    advertised = dict(one.split("://") for one in settings["KAFKA_ADVERTISED_LISTENERS"].split(","))
    protocols = dict(
        one.split(":") for one in settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    )

    assert listeners["EXTERNAL"] == ":23456"
    assert advertised["EXTERNAL"] == "127.0.0.1:23456"
    assert set(protocols) == set(listeners)
    assert set(advertised) == set(listeners) - {settings["KAFKA_CONTROLLER_LISTENER_NAMES"]}
    assert settings["KAFKA_INTER_BROKER_LISTENER_NAME"] in advertised


def test_the_cluster_id_has_the_form_that_kafka_wants() -> None:
    identity = kafka_environment(1)["CLUSTER_ID"]
    assert len(identity) == 22
    assert not identity.startswith("-")
