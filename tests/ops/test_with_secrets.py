from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.ops.in_ray import with_secrets

Json = dict[str, Any]


ARN = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:hub-AbCdEf"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYPERPOD_RAY_SECRETS_FOLDER", str(tmp_path))
    return tmp_path


def test_a_secret_of_kubernetes_is_a_file_without_its_last_line_end(
    secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kubectl create secret --from-file` keeps the line end of the file."""
    (secrets / "hub").mkdir()
    (secrets / "hub" / "token").write_bytes(b" two\nlines\r\n")
    monkeypatch.setenv("HYPERPOD_RAY_SECRETS", json.dumps({"HUB_TOKEN": "hub/token"}))
    monkeypatch.setenv("HUB_TOKEN", "")
    with_secrets.load()
    assert os.environ["HUB_TOKEN"] == " two\nlines"
    monkeypatch.delenv("HYPERPOD_RAY_SECRETS")
    with_secrets.load()
    monkeypatch.delenv("HYPERPOD_RAY_SECRETS_FOLDER")
    with pytest.raises(with_secrets.SecretError, match="/etc/ray-secrets/hub/token does not exist"):
        with_secrets.value_of("hub/token")


def test_a_secret_that_is_not_there_says_how_it_is_made(secrets: Path) -> None:
    with pytest.raises(with_secrets.SecretError) as missing:
        with_secrets.value_of("hub/token")
    assert "Expected Secret 'hub' with key 'token' in the Ray namespace" in str(missing.value)
    assert "kubectl create secret generic hub --from-file=token=FILE" in str(missing.value)


class SecretsManager:
    """Answers GetSecretValue; a missing one is refused, as for whoever may not know that it is missing."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        self.regions: list[str] = []

    def client(self, service: str, *, region_name: str) -> Any:
        assert service == "secretsmanager"
        self.regions.append(region_name)
        return self

    def get_secret_value(self, *, SecretId: str) -> Json:
        if SecretId not in self.values:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetSecretValue")
        return {"SecretString": self.values[SecretId]}


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> SecretsManager:
    service = SecretsManager({ARN: json.dumps({"token": "value", "number": 7})})
    boto3 = ModuleType("boto3")
    boto3.client = service.client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "boto3", boto3)
    return service


def test_a_secret_of_secrets_manager_is_read_in_its_own_region(manager: SecretsManager) -> None:
    assert with_secrets.value_of(f"{ARN}#token") == "value"
    assert with_secrets.value_of(f"{ARN}#number") == "7"
    assert with_secrets.value_of(ARN) == '{"token": "value", "number": 7}'
    assert manager.regions == ["eu-west-1"] * 3


def test_a_refusal_names_the_secret_and_never_its_value(manager: SecretsManager) -> None:
    other = ARN.replace("hub", "other")
    with pytest.raises(with_secrets.SecretError) as refused:
        with_secrets.value_of(other)
    assert f"secret {other}: ClientError. Expected GetSecretValue to be allowed" in str(refused.value)
    for text in ('{"token": "value"}', '["value"]', "value"):
        manager.values[ARN] = text
        with pytest.raises(with_secrets.SecretError, match="no field 'key'") as refused:
            with_secrets.value_of(f"{ARN}#key")
        assert "value" not in str(refused.value)
        assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--", "sh", "-c", "x"], ["sh", "-c", "x"]), (["python", "a.py"], ["python", "a.py"]), ([], ["sh", "-c", "own"])],
)
def test_the_command_takes_the_place_of_this_process(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    became: list[Any] = []
    monkeypatch.setattr(os, "execvp", lambda program, line: became.append((program, line)))
    monkeypatch.setenv("HYPERPOD_RAY_COMMAND", "own")
    monkeypatch.delenv("HYPERPOD_RAY_SECRETS", raising=False)
    with_secrets.main(arguments)
    assert became == [(words[0], words)]


def test_a_command_whose_secret_is_missing_does_not_start(
    secrets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "execvp", lambda *_: pytest.fail("it started"))
    monkeypatch.setenv("HYPERPOD_RAY_SECRETS", json.dumps({"X": "hub/token"}))
    with pytest.raises(SystemExit) as ended:
        with_secrets.main(["true"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: secret hub/token: ")
