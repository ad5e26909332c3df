"""YAML text from outside: libyaml's composer ends the process on text that is nested deep enough."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.charts.lock import Lock
from hyperpod_ray.cli.main import main
from hyperpod_ray.core import yaml_text
from tests.core.environment_files import text_of
from tests.core.three_parts import assert_form

DEEP = 100_000
NESTED = {
    "open brackets": "[" * DEEP,
    "closed brackets": "[" * DEEP + "]" * DEEP,
    "mappings": "{a: " * DEEP,
    "lists in a line": "- " * DEEP + "x",
    "keys in a line": "? " * DEEP + "x",
    "indentation": "".join(" " * depth + "a:\n" for depth in range(2_000)),
}


@pytest.mark.parametrize("form", NESTED)
def test_deep_text_is_refused(form: str) -> None:
    with pytest.raises(yaml.YAMLError, match="levels deep"):
        yaml_text.load(NESTED[form])


def test_many_brackets_beside_each_other_are_read() -> None:
    assert yaml_text.load("a:\n" + "".join(f"  k{number}: [1, {{b: 2}}]\n" for number in range(5_000)))["a"]["k7"] == [
        1,
        {"b": 2},
    ]


def test_a_deep_file_beside_an_environment_does_not_end_its_check(tmp_path: Path) -> None:
    """In a process of its own, which a segmentation fault would end."""
    folder = tmp_path / "environments"
    folder.mkdir()
    (folder / "good.yaml").write_text(text_of({}), encoding="utf-8")
    (folder / "other.yaml").write_text("[" * DEEP, encoding="utf-8")
    command = [sys.executable, "-m", "hyperpod_ray.cli", "--environments", str(folder), "env", "check", "good"]
    ended = subprocess.run(command, capture_output=True, check=False, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"charts: \xff\n", "byte 9 is not UTF-8"), (b"[" * DEEP, "levels deep"), (b"charts: 2001-99-99\n", "not YAML")],
)
def test_a_chart_lock_that_cannot_be_read_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "charts.lock.yaml").write_bytes(content)
    with pytest.raises(ChartError, match=says) as caught:
        Lock.read(tmp_path / "charts.lock.yaml")
    assert_form(caught.value)


@pytest.mark.parametrize("form", [[], ["-o", "json"]])
def test_no_message_shows_a_password_of_a_file(
    form: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "charts.lock.yaml"
    lock.write_text("rediss://:hunter22@a.example.com:6379: 1\n", encoding="utf-8")
    assert main(["charts", "verify", "--lock", str(lock), *form]) == 2
    said = "".join(capsys.readouterr())
    assert "example.com" in said
    assert "hunter22" not in said
