from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from consumers.providers.credentials import CredentialMissing, TokenFile, token_source


def test_the_setting_wins_over_the_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    environment = {"KEY": "from-environment"}

    def chosen(token: str | None, path: Path | None) -> str:
        source = token_source(
            SecretStr(token) if token else None, path, environment=environment, variable="KEY"
        )
        assert source is not None
        return source()

    assert chosen("from-setting", file) == "from-setting"
    assert chosen(None, file) == "from-file"
    assert chosen(None, None) == "from-environment"


def test_the_environment_may_name_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    source = token_source(None, None, environment={"KEY_FILE": str(file)}, variable="KEY")
    assert source is not None
    assert source() == "from-file"


def test_a_rotated_file_is_read_again_and_a_vanished_one_keeps_the_last_secret(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    source = TokenFile(file, setting="token_file")
    replacement = tmp_path / "new"
    replacement.write_text("second")
    os.replace(replacement, file)
    assert source() == "second"
    file.unlink()
    assert source() == "second"


@pytest.mark.parametrize("secret", ["", "two\nlines", "sp ace", "schlüssel"])
def test_a_secret_that_cannot_be_sent_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(CredentialMissing) as caught:
        token_source(SecretStr(secret), None, environment={}, variable=None)
    assert not secret or secret not in str(caught.value)
    assert "token" in str(caught.value)


def test_no_repr_shows_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hidden-secret")
    fixed = token_source(SecretStr("hidden-secret"), None, environment={}, variable=None)
    assert "hidden-secret" not in repr(fixed)
    assert "hidden-secret" not in repr(TokenFile(file, setting="token_file"))
