"""The command line's messages; nothing is started."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.rehearsal.ray_hosts import cluster, commands, machine, source
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError

HERE = Path(__file__).parent


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(commands, "PROJECT", tmp_path)
    return tmp_path


def test_without_the_rehearsal_environment_the_fix_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "ray", "start", str(HERE / "raycluster.yaml")]) == 2
    out = capsys.readouterr()
    assert out.err == "error: no .venv-rehearsal. Expected an environment with Ray\nFix: make rehearsal-env\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["stop"], "no --name. Expected one of none"),
        (["status", "nope"], "ray cluster: 'nope'. Expected one of none"),
        (["inject", "head"], "no --name"),
        (["bridge"], "no --name"),
        (["start", "no-such.yaml"], "no-such"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    project: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "ray", *argv]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_an_unknown_command_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "ray", "explode"]) == 2


def test_a_manifest_for_another_ray_is_refused_before_anything_starts(project: Path) -> None:
    site = project / ".venv-rehearsal" / "lib" / "python3.12" / "site-packages"
    (site / "ray-2.59.0.dist-info").mkdir(parents=True)
    binaries = project / ".venv-rehearsal" / "bin"
    binaries.mkdir()
    (binaries / "ray").touch()
    manifest = source.manifest_of(str(HERE / "raycluster.yaml"), project=project)
    with pytest.raises(LocalError, match=r"Ray 2\.59\.0 in \.venv-rehearsal\. Expected 2\.60\.0"):
        cluster.Cluster.start(manifest=manifest, project=project)
    assert not (project / ".local").exists()


def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    machine.write_secret(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_text()
    machine.write_secret(path)
    assert len(first) == 64
    assert path.read_text() != first
