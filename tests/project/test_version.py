from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hyperpod_ray.core import version
from tests.project.conftest import DISTRIBUTIONS, SOURCE
from tests.project.story import Run


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    return subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_all_wheels_of_a_commit_have_its_version(wheels: dict[str, Path], run: Run, tmp_path: Path) -> None:
    expected = version._of_checkout(SOURCE)
    versions = {name: path.name.split("-")[1] for name, path in wheels.items()}
    assert versions == dict.fromkeys((name or "hyperpod_ray" for name in DISTRIBUTIONS), expected)
    for words in (["hyperpod-sandbox", "--version"], ["--version"]):
        done = run(*words, cwd=tmp_path)
        assert done.stdout.split()[-1:] == [expected], done.stderr


def test_a_commit_is_named_unless_it_is_the_release(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert version._of_checkout(tmp_path) == f"{version.__version__}.dev0"
    (tmp_path / "file").write_text("first")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    commit = git(tmp_path, "rev-parse", "--short=7", "HEAD")
    assert version._of_checkout(tmp_path) == f"{version.__version__}.dev0+g{commit}"
    git(tmp_path, "tag", "v0.0.1")
    assert version._of_checkout(tmp_path).endswith(f"+g{commit}"), "a tag of another version is no release of this one"
    git(tmp_path, "tag", f"v{version.__version__}")
    assert version._of_checkout(tmp_path) == version.__version__
    (tmp_path / "file").write_text("second")
    assert version._of_checkout(tmp_path) == f"{version.__version__}.dev0+g{commit}.dirty"


@pytest.mark.parametrize(
    ("text", "numbers"), [("0.3.0", (0, 3, 0)), ("0.10.2-rc.1", (0, 10, 2)), ("1.0.0+g1", (1, 0, 0))]
)
def test_versions_are_compared_by_their_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert version.release(text) == numbers
