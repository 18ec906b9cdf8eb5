"""Settings: where they come from, and what is said of those that cannot be right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from consumers.setting_names import Setting, settings_of
from consumers.settings import Settings, SettingsError, load, read_secret

ALL = list(settings_of(Settings))
SECRETS = [setting for setting in ALL if setting.is_secret]


def from_environment(**variables: str) -> Settings:
    return load(environment={f"BUNDLES_{name}": value for name, value in variables.items()})


def error_of(**variables: str) -> str:
    with pytest.raises(SettingsError) as caught:
        from_environment(**variables)
    return str(caught.value)


def toml(folder: Path, text: str) -> Path:
    file = folder / "settings.toml"
    file.write_text(text)
    return file


def concrete(setting: Setting, name: str = "selfhosted") -> tuple[str, ...]:
    return tuple(name if part == "*" else part for part in setting.path)


# --- precedence --------------------------------------------------------------------------------


def test_an_option_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = toml(tmp_path, '[kafka]\ngroup_id = "file"\n[topics]\nevents = "file"\nresults = "file"')
    found = load(
        config=file,
        environment={"BUNDLES_TOPICS__EVENTS": "env", "BUNDLES_TOPICS__RESULTS": "env"},
        overrides={"topics.results": "option", "topics.ledger": None},
    )
    assert found.kafka.group_id == "file"
    assert (found.topics.events, found.topics.results) == ("env", "option")
    assert found.topics.ledger == "bundles.ledger.v1"


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = toml(tmp_path, '[kafka]\ngroup_id = "from-file"')
    assert from_environment(CONFIG=str(file)).kafka.group_id == "from-file"


def test_an_empty_variable_counts_as_not_set() -> None:
    assert from_environment(KAFKA__GROUP_ID="", TEMP__DIR="") == load(environment={})


# --- lists and tables in the environment -------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["a-bucket,b-bucket", "a-bucket, b-bucket ,", '["a-bucket", "b-bucket"]']
)
def test_a_list_is_written_with_commas_or_as_json(text: str) -> None:
    found = from_environment(STORE__READABLE_BUCKETS=text)
    assert found.store.readable_buckets == ("a-bucket", "b-bucket")


def test_a_table_is_written_as_json_and_numbers_become_text() -> None:
    found = from_environment(
        KAFKA__CLIENT='{"socket.timeout.ms": 5000, "socket.keepalive.enable": true}',
        WORKER__JOBS='{"selfhosted": 7}',
        POLICIES__DEFAULT__PROVIDER_OPTIONS='{"Mode": "fast"}',
    )
    assert found.kafka.client == {
        "socket.timeout.ms": "5000",
        "socket.keepalive.enable": "true",
    }
    assert found.worker.jobs == {"selfhosted": 7}
    assert found.policies["default"].provider_options == {"Mode": "fast"}


def test_a_table_that_is_no_json_is_refused_without_quoting_it() -> None:
    said = error_of(KAFKA__CLIENT='{"sasl.password": "canary-1"')
    assert said.startswith("BUNDLES_KAFKA__CLIENT: not JSON")
    assert '{"name": "value"}' in said
    assert "canary" not in said


def test_a_provider_whose_name_has_a_hyphen_is_set_with_an_underscore() -> None:
    found = from_environment(PROVIDERS__AWS_LAMBDA__AWS__BUCKET="pages")
    assert found.providers["aws-lambda"].aws.bucket == "pages"
    assert found.providers["aws-lambda"].kind == "aws-lambda"


# --- names that are none -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("KAFKA__BOOTSTRAP_SERVER", "KAFKA__BOOTSTRAP_SERVERS"),
        ("KAFKA_BOOTSTRAP_SERVERS", "KAFKA__BOOTSTRAP_SERVERS"),
        ("STORE__INPUT__ACCES_KEY", "STORE__INPUT__ACCESS_KEY"),
        ("POLICIES__FAST__POLLING__DEADLINE", "POLICIES__FAST__POLLING__DEADLINE_S"),
        ("PROVIDERS__SELFHOSTED__BASEURL", "PROVIDERS__SELFHOSTED__BASE_URL"),
        ("PROVIDERS__AZURE__AZURE__MODELL", "PROVIDERS__AZURE__AZURE__MODEL"),
        ("KAFK__GROUP_ID", "KAFKA__GROUP_ID"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_one_that_was_meant(given: str, meant: str) -> None:
    said = error_of(**{given: "x"})
    assert said == f"BUNDLES_{given}: no such setting; did you mean BUNDLES_{meant}?"


def test_an_unknown_name_in_the_file_is_refused_with_file_and_nearest_match(tmp_path: Path) -> None:
    file = toml(tmp_path, "[worker]\ndocumnets = 3")
    said = error_of(CONFIG=str(file))
    assert said == f"worker.documnets ({file}): no such setting; did you mean worker.documents?"


def test_a_name_like_no_other_is_refused_without_a_guess() -> None:
    assert error_of(XYZZY="1") == "BUNDLES_XYZZY: no such setting"


def test_every_problem_is_told_at_once() -> None:
    said = error_of(SANDBOX__MEMORY="512", WORKER__GRACE="soon", KAFKA__WINDOW="0").splitlines()
    assert [line.partition(":")[0] for line in said] == [
        "BUNDLES_KAFKA__WINDOW",
        "BUNDLES_SANDBOX__MEMORY",
        "BUNDLES_WORKER__GRACE",
    ]
    assert "a size with its unit" in said[1]
    assert "a duration with its unit" in said[2]


def test_a_setting_below_a_value_is_refused() -> None:
    said = error_of(KAFKA__GROUP_ID="x", KAFKA__GROUP_ID__Y="z")
    assert said == "BUNDLES_KAFKA__GROUP_ID__Y: group_id is a value, not a section"


@pytest.mark.parametrize(
    ("variable", "text", "number"),
    [
        ("POLICIES__DEFAULT__POLLING__DEADLINE_S", "10m", 600.0),
        ("POLICIES__DEFAULT__POLLING__DEADLINE_S", "600", 600.0),
        ("POLICIES__DEFAULT__LIMITS__MAX_DOCUMENT_BYTES", "1MiB", 1048576),
        ("POLICIES__DEFAULT__RETENTION__OUTPUT_DAYS", "48h", 2.0),
        ("PROVIDERS__SELFHOSTED__READ_TIMEOUT_SECONDS", "2m", 120.0),
        ("PROVIDERS__SELFHOSTED__MAX_JSON_BYTES", "2MiB", 2097152),
    ],
)
def test_a_name_that_has_its_unit_takes_a_number_or_a_unit(
    variable: str, text: str, number: float
) -> None:
    found: Any = from_environment(**{variable: text})
    for part in variable.lower().split("__"):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == number


def test_units_change_nothing_of_the_policy_version() -> None:
    plain = load(environment={}).policies["default"].version
    written = from_environment(POLICIES__DEFAULT__LIMITS__MAX_DOCUMENT_BYTES="200MiB")
    assert written.policies["default"].version == plain


# --- secrets -----------------------------------------------------------------------------------


def canaries() -> Iterator[tuple[tuple[str, ...], str]]:
    for number, setting in enumerate(SECRETS):
        yield concrete(setting), f"canary-{number:03d}"


def test_every_secret_can_also_be_given_as_a_file() -> None:
    names = {setting.path for setting in ALL}
    without = [s.name for s in SECRETS if (*s.path[:-1], f"{s.path[-1]}_file") not in names]
    assert len(SECRETS) >= 10
    assert without == []


def test_no_secret_is_printed_whatever_prints_the_settings() -> None:
    overrides: dict[str, Any] = {".".join(path): secret for path, secret in canaries()}
    overrides |= {
        "kafka.sasl_mechanism": "OAUTHBEARER",
        "kafka.security_protocol": "sasl_ssl",
        "kafka.oauth.token_endpoint": "https://id.example.org/token",
        "kafka.oauth.client_id": "worker",
        "kafka.client": {
            "sasl.password": "canary-client-1",
            "ssl.key.pem": "canary-client-2",
            "SASL.OAUTHBEARER.CLIENT.SECRET": "canary-client-3",
            "ssl.keystore.password": "canary-client-4",
            "sasl.oauthbearer.config": "canary-client-5",
            "sasl.oauthbearer.assertion.private.key.passphrase": "canary-client-6",
            "socket.timeout.ms": "5000",
        },
    }
    found = load(environment={}, overrides=overrides)
    shown = json.dumps(found.model_dump(mode="json"))
    assert "canary" not in shown + repr(found) + str(found)
    assert shown.count("**********") == len(SECRETS) + 6
    assert '"socket.timeout.ms": "5000"' in shown


@pytest.mark.parametrize(
    "variable",
    ["STORE__ENDPOINT", "STORE__INPUT__ENDPOINT", "PROVIDERS__SELFHOSTED__BASE_URL"],
)
def test_a_url_with_credentials_is_refused_and_not_quoted(variable: str) -> None:
    said = error_of(**{variable: "https://user:canary@host.example.org"})
    assert said.startswith(f"BUNDLES_{variable}: a URL must not carry credentials")
    assert "canary" not in said


def test_a_wrong_value_is_not_quoted() -> None:
    said = error_of(STORE__ADDRESSING="canary", KAFKA__WINDOW="canary", KAFKA__CLIENT="[1]")
    assert "canary" not in said


def test_a_secret_and_its_file_together_are_refused() -> None:
    said = error_of(STORE__SECRET_KEY="x", STORE__SECRET_KEY_FILE="/run/x")
    assert "set secret_key or secret_key_file, not both" in said


def test_a_secrets_file_in_the_environment_replaces_the_secret_of_the_file(tmp_path: Path) -> None:
    config = toml(tmp_path, '[store]\nsecret_key = "x"\naccess_key_file = "/run/y"')
    store = from_environment(
        CONFIG=str(config), STORE__SECRET_KEY_FILE="/run/x", STORE__ACCESS_KEY="y"
    ).store
    assert (store.secret_key, store.secret_key_file) == (None, Path("/run/x"))
    assert (store.access_key, store.access_key_file) == (SecretStr("y"), None)


def test_a_secret_is_read_from_its_file_without_the_line_end(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret\n")
    assert read_secret(None, file, "store.secret_key") == "s3cret"
    assert read_secret(SecretStr("direct"), None, "store.secret_key") == "direct"


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read the file"), (b"\n", "is empty"), (b"\xff\xfe", "is not text")],
)
def test_a_file_that_gives_no_secret_is_named_by_its_setting(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=rf"^store\.secret_key_file: .*{said}"):
        read_secret(None, file, "store.secret_key")


# --- what belongs together ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SECURITY_PROTOCOL": "sasl_ssl"}, "sasl_mechanism must be set"),
        ({"SASL_MECHANISM": "SCRAM-SHA-512"}, "security_protocol must be sasl_ssl"),
        (
            {"SECURITY_PROTOCOL": "sasl_ssl", "SASL_MECHANISM": "SCRAM-SHA-512"},
            "sasl_username and sasl_password_file",
        ),
        (
            {"SECURITY_PROTOCOL": "sasl_ssl", "SASL_MECHANISM": "OAUTHBEARER"},
            "kafka.oauth must be set",
        ),
        ({"SSL_KEY_FILE": "/run/key.pem"}, "ssl_certificate_file and ssl_key_file"),
    ],
)
def test_kafka_settings_that_cannot_work_together_are_refused(
    variables: dict[str, str], said: str
) -> None:
    assert said in error_of(**{f"KAFKA__{name}": value for name, value in variables.items()})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"CLIENT_SECRET": ""}, "client_secret or client_secret_file must be set"),
        ({"TOKEN_ENDPOINT": "http://id.example.org/token"}, "plain http"),
        ({"TOKEN_ENDPOINT": "id.example.org"}, "https://host/path"),
    ],
)
def test_oauth_settings_that_cannot_work_are_refused(changes: dict[str, str], said: str) -> None:
    variables = {
        "TOKEN_ENDPOINT": "https://id.example.org/token",
        "CLIENT_ID": "worker",
        "CLIENT_SECRET": "x",
        **changes,
    }
    assert said in error_of(**{f"KAFKA__OAUTH__{name}": v for name, v in variables.items()})


def test_a_kms_key_without_kms_is_refused() -> None:
    assert "must be aws:kms" in error_of(STORE__KMS_KEY_ID="key")


def test_the_input_identity_shares_the_endpoint_but_no_key() -> None:
    found = from_environment(
        STORE__ENDPOINT="https://s3.example.org",
        STORE__REGION="eu-central-1",
        STORE__ACCESS_KEY="out",
        STORE__SECRET_KEY="out-secret",
        STORE__INPUT__ACCESS_KEY="in",
        STORE__INPUT__READ_TIMEOUT="7s",
    ).store.input
    assert found is not None
    assert (found.endpoint, found.region) == ("https://s3.example.org", "eu-central-1")
    assert found.read_timeout == 7.0
    assert found.access_key == SecretStr("in")
    assert found.secret_key is None
