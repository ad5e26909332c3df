"""The command that upgrades a file: what it shows, what it writes, and what it names for you to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.core import upgrade
from hyperpod_ray.core.version import __version__
from tests.environments.upgrade_helpers import OLD, comments


def test_the_whole_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(OLD)
    assert main(["env", "upgrade", str(file)]) == 2
    error = capsys.readouterr().err
    assert "does not say which version it is written for. Expected --from with one of 0.1.0, 0.2.0" in error
    assert f"Fix: hyperpod-ray env upgrade {file} --from 0.2.0" in error
    assert main(["env", "upgrade", str(file), "--from", "0.2.0"]) == 0
    shown = capsys.readouterr()
    assert "\n+image: {repository_name: ray-training}\n" in shown.out
    assert "+log_group_names: generated\n" in shown.out
    assert "image.repository_name: was the default; another name replaces the repository" in shown.out
    assert file.read_text() == OLD, "shown, not written"
    assert shown.err.strip().endswith(f"env upgrade {file} --from 0.2.0 --write")
    assert main(["env", "upgrade", str(file), "--from", "0.2.0", "--write"]) == 0
    capsys.readouterr()
    written = file.read_text()
    assert comments(written) == comments(OLD)
    assert main(["--environments", str(tmp_path), "env", "check", "lab"]) == 0
    assert main(["--environments", str(tmp_path), "env", "upgrade", "lab"]) == 0
    assert f"nothing to change for {__version__}" in capsys.readouterr().out
    assert file.read_text() == written


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (f"written_for: 9.0.0\n{OLD}", [], ["lab.yaml:1: written_for: 9.0.0", "install hyperpod-ray 9.0.0"]),
        (OLD, ["--from", "9.0.0"], ["9.0.0, and this is hyperpod-ray"]),
        (OLD, ["--from", "0.0.9"], ["'0.0.9' was no release. Expected one of 0.1.0, 0.2.0"]),
        (OLD, ["--from", "latest"], ["'latest' is no version. Expected one of 0.1.0, 0.2.0"]),
        ("", ["--from", "0.2.0"], ["no settings"]),
        ("- a\n", ["--from", "0.2.0"], ["no settings"]),
        ("<<<<<<< ours\n" + OLD, ["--from", "0.2.0"], ["lab.yaml:"]),
        (OLD + "tags: {<<: *base}\n", ["--from", "0.2.0"], ["lab.yaml:13"]),
        (OLD.replace("region: us-west-2", "region: us-west-9"), ["--from", "0.2.0"], ["lab.yaml:5: region"]),
    ],
)  # fmt: skip
def test_what_is_left_for_a_person_is_named(
    text: str, options: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    assert main(["env", "upgrade", str(file), *options]) == 2
    error = capsys.readouterr().err
    for word in (*words, "Expected", "Fix"):
        assert word in error
    assert "internal error" not in error
    assert file.read_text() == text


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    file = tmp_path / "lab.yaml"
    file.write_text(OLD)

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refused)
    assert main(["env", "upgrade", str(file), "--from", "0.2.0", "--write"]) == 2
    assert "lab.yaml cannot be written: permission denied. Expected a file" in capsys.readouterr().err


@pytest.mark.parametrize("version", upgrade.RELEASES[:-1])
def test_a_file_of_each_release_is_taken(version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(OLD)
    assert main(["env", "upgrade", str(file), "--from", version]) in (0, 2)
    assert "was no release" not in capsys.readouterr().err
