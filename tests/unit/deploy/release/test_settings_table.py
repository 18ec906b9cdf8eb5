"""The table of settings says what the code does, of every setting."""

from __future__ import annotations

import pytest

from consumers.setting_names import Setting, find, settings_of
from consumers.settings import Settings
from deploy.extractor.settings import Settings as ExtractorSettings
from deploy.release import settings_table
from deploy.release.settings_table import default_of, kind_of, meaning_of

ALL = list(settings_of(Settings))


def setting(name: str) -> Setting:
    found = find(Settings, name.split("."))
    assert found is not None
    return found


def test_it_is_up_to_date() -> None:
    written = settings_table.TARGET.read_text()
    assert written == settings_table.document(), "run python -m deploy.release.settings_table"


def test_every_setting_has_a_meaning() -> None:
    assert [one.name for one in ALL if not meaning_of(one)] == []
    unsaid = [n for n, field in ExtractorSettings.model_fields.items() if not field.description]
    assert unsaid == []


def test_providers_and_policies_are_in_it() -> None:
    names = {one.name for one in ALL}
    assert len(names) == len(ALL) > 120
    assert {
        "providers.*.base_url",
        "providers.*.azure.model",
        "policies.*.polling.deadline_s",
        "policies.*.retention.output_days",
        "kafka.oauth.client_secret_file",
        "store.input.session_token",
    } <= names


@pytest.mark.parametrize(
    ("name", "kind", "default"),
    [
        ("worker.grace", "duration", "`25s`"),
        ("temp.quota", "size", "`4GiB`"),
        ("policies.*.limits.max_document_bytes", "bytes, or size", "`200MiB`"),
        ("policies.*.retention.job_record_days", "days, or duration", "`90.0`"),
        ("providers.*.read_timeout_seconds", "seconds, or duration", "`60.0`"),
        ("store.probe", "true, false", "`true`"),
        ("store.secret_key", "**secret**", ""),
        ("kafka.client", "table", ""),
        ("log.level", "`debug`, `info`, `warning`, `error`", "`info`"),
        ("kafka.oauth.client_id", "text", "*must be set*"),
    ],
)
def test_types_units_and_defaults_are_read_off_the_model(
    name: str, kind: str, default: str
) -> None:
    assert (kind_of(setting(name)), default_of(setting(name))) == (kind, default)
