"""Mistakes of somebody with a repository of their own: each meets one message and exit code 2."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import extra_of
from hyperpod_ray.ops.errors import BAD_USE, ERROR, explain
from hyperpod_ray.review import worktrees
from tests.cli.mistakes_helpers import ANSWERS, refused, run
from tests.cli.test_anywhere import PROJECT, START, somebody_else

LATIN = (
    ({"PYTHONIOENCODING": "latin-1"}, ["cost", "dev", "--offline"]),
    ({"PYTHONIOENCODING": "ascii"}, ["plan", "dev", "--model", "llama-3.1-8b", "--tokens", "1B"]),
    ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, ["--help"]),
)


def started(*words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[bytes]:
    """By a new interpreter, which reads some variables when it starts."""
    return subprocess.run(
        [sys.executable, "-m", "hyperpod_ray.cli", *words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT), **more}, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words", [["env", "check"], ["status", "dev"], ["deploy", "dev"], ["submit", "dev", "--", "x"]]
)
def test_an_empty_repository(words: list[str], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    refused(run(*words, cwd=tmp_path), f"no environment file in {tmp_path}", "hyperpod-ray init FOLDER")
    assert [path.name for path in tmp_path.iterdir()] == [".git"]
    # the way out
    assert run("init", ".", *ANSWERS, cwd=tmp_path).returncode == 0
    assert run("env", "check", cwd=tmp_path).stdout == b"ok dev\n"


def test_two_folders_of_environments(project: Path) -> None:
    below = project / "teams" / "vision"
    shutil.copytree(project / "environments", below / "environments")
    for words in (["env", "check"], ["status", "dev"], ["cost", "dev", "--offline"]):
        refused(run(*words, cwd=below), "2 folders of environment files", str(below), "--environments FOLDER")
    assert run("--environments", "environments", "env", "check", cwd=below).stdout == b"ok dev\n"


@pytest.mark.parametrize("words", [["env", "check"], ["deploy", "dev"], ["env", "upgrade", "dev"], ["status", "dev"]])
def test_a_wheel_older_than_the_file(project: Path, words: list[str]) -> None:
    file = project / "environments" / "dev.yaml"
    lines = file.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("written_for:"))
    lines[at] = "written_for: 99.1.0\n"
    file.write_text("".join(lines))
    refused(run(*words, cwd=project), f"dev.yaml:{at + 1}: written_for: 99.1.0", "install hyperpod-ray 99.1.0 or newer")


def test_a_folder_that_is_no_git_repository(project: Path) -> None:
    refused(run("review", "--base", "main", cwd=project), "is in no git repository", "git init")
    refused(run("review", cwd=project), "no revision to compare with")
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    refused(run("review", "--base", "main", cwd=project), "has no commit")


@pytest.mark.parametrize("side", ["<<<<<<< HEAD", ">>>>>>> theirs"])
def test_conflict_markers_in_an_environment_file(project: Path, side: str) -> None:
    file = project / "environments" / "dev.yaml"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:7], f"{side}\n", *lines[7:]]))
    for words in (["env", "check"], ["cost", "dev", "--offline"], ["env", "upgrade", "dev"]):
        refused_by = run(*words, cwd=project)
        refused(refused_by, "dev.yaml:8: ", "conflict markers of a merge", "remove the lines of <, = and >")


def test_a_list_of_files_that_nobody_reads_to_its_end(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # as `| head -1` does, in the end
    words = [sys.executable, "-m", "hyperpod_ray.cli", "init", "platform", *ANSWERS]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert b"Traceback" not in done.stderr
    assert run("env", "check", cwd=tmp_path / "platform").stdout == b"ok dev\n"
    names = {path.name for path in (tmp_path / "platform").iterdir()}
    assert names >= {"app.py", "cdk.json", "requirements.txt", "README.md"}


def test_a_review_without_the_cdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "aws_cdk", None)
    with pytest.raises(ModuleNotFoundError) as missing:
        worktrees._synthesize(tmp_path, [{"out": "out", "context": {}}], {})
    said = extra_of(missing.value)
    assert said is not None
    assert "needs the part [deploy]" in str(said)


@pytest.fixture
def frozen() -> Iterator[Path]:
    """A project where this user may not write; outside pytest's folders, which are their owner's."""
    top = Path(tempfile.mkdtemp(prefix="frozen-"))
    top.chmod(0o755)
    folder = top / "platform"
    done = run("init", str(folder), *ANSWERS, cwd=top)
    assert done.returncode == 0, done.stderr
    below = (folder, *folder.rglob("*"))
    for path in below:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in below:
        path.chmod(0o755)
    shutil.rmtree(top)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["env", "schema"], "environments/schema.json"),
        (["env", "new", "stage", *ANSWERS], "environments/stage.yaml"),
        (["manifests", "dev", "--out", "objects"], "objects"),
        (["init", "other", *ANSWERS], "other"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_read_only_checkout(frozen: Path, words: list[str], path: str) -> None:
    python, user, more = somebody_else()
    writable = frozen.parent / "jsii"
    writable.mkdir()
    writable.chmod(0o777)
    if os.geteuid() == 0 and user is None:
        pytest.skip("root writes everywhere, and no other user can run this Python")
    done = subprocess.run(
        [python, "-c", START, *words], cwd=frozen, user=user, stdin=subprocess.DEVNULL, capture_output=True,
        env={"PATH": os.defpath, "HOME": "/nonexistent", "PYTHONPATH": str(PROJECT),
             "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(writable), **more},
        check=False,
    )  # fmt: skip
    refused(done, f"{path}", ": permission denied")


def test_jsii_without_a_cache_is_one_message(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = started("manifests", "dev", cwd=project, JSII_RUNTIME_PACKAGE_CACHE_ROOT=str(tmp_path / "file" / "cache"))
    refused(done, "jsii", "JSII_RUNTIME_PACKAGE_CACHE_ROOT=FOLDER")


@pytest.mark.parametrize(
    ("number", "said"), [(errno.EROFS, "the file system is read-only"), (errno.EPERM, "permission denied")]
)
def test_a_refusal_of_the_operating_system_names_the_file(number: int, said: str) -> None:
    error = explain(OSError(number, os.strerror(number), "/srv/platform/cdk.out"))
    assert error is not None
    assert (error.code, error.message) == (
        BAD_USE,
        f"/srv/platform/cdk.out: {said}. Expected a file or folder that you can read and write",
    )
    other = explain(OSError(number, os.strerror(number)))
    assert other is not None
    assert other.code == ERROR


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "words"), LATIN, ids=["latin-1", "ascii", "C"])
def test_a_terminal_that_is_not_utf_8(project: Path, variables: dict[str, str], words: list[str]) -> None:
    """Files are UTF-8 whatever the terminal is; a sign that it lacks is a question mark."""
    file = project / "environments" / "dev.yaml"
    file.write_text(file.read_text() + "tags: {owner: Jörg Łoś}\n", encoding="utf-8")
    assert started("env", "check", cwd=project, **variables).stdout == b"ok dev\n"
    shown = started("env", "show", "dev", cwd=project, **variables)
    assert shown.returncode == 0, shown.stderr
    assert b"owner: J" in shown.stdout
    done = started(*words, cwd=project, **variables)
    assert done.returncode in (0, 3), done.stderr
    assert done.stdout
    assert b"codec" not in done.stderr
    done.stdout.decode(variables.get("PYTHONIOENCODING", "ascii"))
    file.write_text(file.read_text() + "nodes: é\n", encoding="utf-8")
    refused(started("env", "check", cwd=project, **variables), "nodes: unknown setting")
    same = started("env", "upgrade", "dev", "--from", "0.2.0", "--write", cwd=project, **variables)
    assert b"codec" not in same.stderr
    assert "Jörg Łoś" in file.read_text(encoding="utf-8")
