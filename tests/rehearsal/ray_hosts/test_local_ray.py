"""The command line's messages; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox.rehearsal.ray_hosts import commands

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
