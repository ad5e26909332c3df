"""Where commands of local keep their state, and how a rehearsal fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperpod_ray.cli import local_state
from hyperpod_ray.cli.options import current
from hyperpod_ray.core.names import ENVIRONMENTS_VARIABLE
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray_sandbox.aws import paths
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError


def test_the_state_is_in_the_project_of_the_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two projects on one machine have a sandbox each; a folder that you name goes before both."""
    environments = tmp_path / "platform" / "environments"
    environments.mkdir(parents=True)
    (tmp_path / "platform" / "cdk.json").write_text("{}")
    monkeypatch.setattr(current, "folder", environments)
    assert local_state.state_folder(None) == tmp_path / "platform" / ".local" / "aws"
    assert local_state.state_folder(tmp_path / "mine") == tmp_path / "mine"


def test_a_rehearsals_processes_read_the_environments_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the variable is yours again afterwards, also where the rehearsal fails."""
    monkeypatch.setattr(current, "folder", tmp_path)
    for before in (None, "/elsewhere"):
        if before is None:
            monkeypatch.delenv(ENVIRONMENTS_VARIABLE, raising=False)
        else:
            monkeypatch.setenv(ENVIRONMENTS_VARIABLE, before)
        with pytest.raises(OpsError, match="no such pod") as failed, local_state.rehearsal_errors():
            assert os.environ[ENVIRONMENTS_VARIABLE] == str(tmp_path)
            raise LocalError("no such pod", expected="one of a, b", fix="--pod a", code=BAD_USE)
        assert (failed.value.expected, failed.value.fix, failed.value.code) == ("one of a, b", "--pod a", BAD_USE)
        assert os.environ.get(ENVIRONMENTS_VARIABLE) == before


def test_from_wheels_a_rehearsal_is_refused_with_what_works_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "INSTALLED", True)
    with pytest.raises(OpsError, match="installed from wheels") as refused, local_state.rehearsal_errors():
        pytest.fail("the rehearsal started")
    assert refused.value.code == BAD_USE
    assert "hyperpod-ray local deploy" in refused.value.fix
