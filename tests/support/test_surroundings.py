"""Hostile surroundings change no answer, and a test that writes elsewhere fails."""

from __future__ import annotations

import gzip
import io
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import surroundings

JUDGED = (
    "core/account/test_right.py",
    "core/test_environment_plan.py",
    "core/test_provenance.py",
    "pricing/test_budget.py",
)
"""Tests that fail without the cleaning: they make AWS clients, judge dates, read files and print tables."""


def hostile(home: Path) -> dict[str, str]:
    """Variables of somebody whose settings are wrong for every test, and whose home has files that are none."""
    for name, text in {
        ".aws/config": "[default]\nregion = mars-north-1\n", ".kube/config": "nonsense: [",
        ".gitconfig": "[core]\n\tautocrlf = true\n[color]\n\tui = always\n[init]\n\tdefaultBranch = trunk\n",
    }.items():  # fmt: skip
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "AWS_PROFILE": "hostile", "AWS_REGION": "mars-north-1",
        "AWS_DEFAULT_REGION": "mars-north-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x",
        "KUBECONFIG": str(home / ".kube" / "config"), "TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8",
        "LANG": "tr_TR.UTF-8", "RAY_ADDRESS": "http://127.0.0.1:9", "HYPERPOD_RAY_ENVIRONMENTS": "/nonexistent",
        "HYPERPOD_RAY_DATE": "2031-01-01", "COLUMNS": "40", "PYTHONDONTWRITEBYTECODE": "1",
        "RESILIENCE_STORAGE": "/nonexistent", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }  # fmt: skip


def suite(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run pytest in hostile surroundings."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=surroundings.PROJECT, env=hostile(home), umask=0o077, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_hostile_surroundings_change_no_answer(tmp_path: Path) -> None:
    done = suite(*(f"tests/{name}" for name in JUDGED), home=tmp_path)
    assert done.returncode == 0, done.stdout


def probe(folder: Path, text: str) -> list[str]:
    """A test elsewhere, with this project's conftest."""
    (folder / "conftest.py").write_text("from tests.conftest import *  # noqa: F403\n")
    (folder / "test_probe.py").write_text(text)
    return ["--rootdir", str(surroundings.PROJECT), "-c", "pyproject.toml", str(folder)]


def test_what_a_test_sees_is_the_same_everywhere(tmp_path: Path) -> None:
    text = (
        "import os, time\nfrom pathlib import Path\n"
        "def test_it():\n"
        "    assert time.tzname == ('UTC', 'UTC')\n"
        "    assert os.umask(0o022) == 0o022\n"
        f"    assert Path.home() != Path({str(tmp_path)!r}) and not list(Path.home().iterdir())\n"
        "    assert os.environ['HYPERPOD_RAY_DATE'] == '2026-11-22'\n"
        "    foreign = ('AWS_', 'KUBECONFIG', 'RAY_', 'RESILIENCE_', 'LC_')\n"
        "    assert not [name for name in os.environ if name.startswith(foreign)]\n"
    )
    done = suite(*probe(tmp_path, text), home=tmp_path)
    assert done.returncode == 0, done.stdout


# ruff: noqa: PTH103, PTH104, PTH123  (each way to write has its line)
WRITES: dict[str, Callable[[Path, Path], object]] = {
    "open": lambda new, _: open(new, "w").close(),
    "open, by keyword": lambda new, _: open(file=new, mode="xb").close(),
    "open, to add": lambda new, _: open(new, "a").close(),
    "open, to change": lambda _, old: open(old, "r+").close(),
    "io.open": lambda new, _: io.open(new, "w").close(),  # noqa: UP020
    "os.open": lambda new, _: os.close(os.open(new, os.O_WRONLY | os.O_CREAT, 0o600)),
    "write_text": lambda new, _: new.write_text("x"),
    "write_bytes": lambda new, _: new.write_bytes(b"x"),
    "touch": lambda new, _: new.touch(),
    "Path.mkdir": lambda new, _: new.mkdir(parents=True, exist_ok=True),
    "os.makedirs": lambda new, _: os.makedirs(new),
    "rename": lambda new, old: old.rename(new),
    "replace": lambda new, old: old.replace(new),
    "os.rename": lambda new, old: os.rename(old, new),
    "shutil.copy": lambda new, old: shutil.copy(old, new),
    "shutil.copytree": lambda new, old: shutil.copytree(old.parent, new),
    "shutil.move": lambda new, old: shutil.move(old, new),
    "mkstemp": lambda _, old: os.close(tempfile.mkstemp(dir=old.parent)[0]),
    "mkdtemp": lambda _, old: tempfile.mkdtemp(dir=old.parent),
    "NamedTemporaryFile": lambda _, old: tempfile.NamedTemporaryFile(dir=old.parent).close(),
    "gzip": lambda new, _: gzip.open(new, "w").close(),
    "zipfile": lambda new, _: zipfile.ZipFile(new, "w").close(),
    "tarfile": lambda new, _: tarfile.open(new, "w").close(),
    "logging": lambda new, _: logging.FileHandler(new).close(),
}


@pytest.mark.parametrize("way", WRITES)
def test_every_way_to_write_is_noted(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").mkdir()
    old = tmp_path / "old" / "file"
    old.write_text("x")
    guard = surroundings.Guard(monkeypatch, allowed=lambda _: False)
    WRITES[way](tmp_path / "new", old)
    assert guard.written


@pytest.mark.parametrize(
    ("path", "passes"),
    [
        (tempfile.gettempdir() + "/x", True),
        ("/dev/null", True),
        ("/var/x", False),
        ("/devices/x", False),
        ("/opt/package/__pycache__/x.pyc", True),
        (surroundings.PROJECT / "x", False),
        (surroundings.PROJECT / ".cache" / "x", True),
        (surroundings.PROJECT / "docs" / "__pycache__" / "x.pyc", True),
        (surroundings.PROJECT / "docs" / "x", False),
        (surroundings.PROJECT.with_name(f"{surroundings.PROJECT.name}-2") / "x", False),
        (surroundings.PROJECT.joinpath(*surroundings.UNPACKED) / "x", True),
    ],
)
def test_where_a_test_may_write(path: str | Path, passes: bool) -> None:
    assert surroundings.allowed(str(path)) == passes


def test_what_reads_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    guard = surroundings.Guard(monkeypatch, allowed=lambda _: False)
    assert (tmp_path / "file").read_text() == open(tmp_path / "file", encoding="utf-8").read() == "x"  # noqa: SIM115
    os.close(os.open(tmp_path / "file", os.O_RDONLY))
    tmp_path.mkdir(exist_ok=True)
    assert os.stat in os.supports_dir_fd
    assert os.open in os.supports_dir_fd
    assert guard.written == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("writes", "passes"),
    [
        ("(tmp_path / 'x').write_text('x')", True),
        ("(PROJECT / '.cache' / 'written-by-a-test').touch()", True),
        ("(PROJECT.joinpath(*surroundings.UNPACKED) / 'written-by-a-test').mkdir(parents=True)", True),
        ("(PROJECT / 'hyperpod_ray_sandbox' / 'charts' / 'written-by-a-test').mkdir()", False),
        ("(PROJECT / 'written-by-a-test').write_text('x')", False),
        ("(PROJECT / 'docs' / 'written-by-a-test').mkdir()", False),
        ("(tmp_path / 'x').touch(); (tmp_path / 'x').rename(PROJECT / 'written-by-a-test')", False),
        ("open('/var/written-by-a-test', 'w').close()", False),
    ],
)
def test_a_test_that_writes_elsewhere_fails(writes: str, passes: bool, tmp_path: Path) -> None:
    unpacked = Path(*surroundings.UNPACKED)
    inner = ("", ".cache", "docs", unpacked.parent, unpacked)
    places = [surroundings.PROJECT / name for name in inner] + [Path("/var")]
    imports = "from tests.support import surroundings\nfrom tests.support.surroundings import PROJECT\n"
    text = f"{imports}def test_it(tmp_path):\n    {writes}\n"
    try:
        done = suite(*probe(tmp_path, text), home=tmp_path)
    finally:
        for path in (place / "written-by-a-test" for place in places):
            if path.is_dir():
                path.rmdir()
            path.unlink(missing_ok=True)
    assert done.returncode == int(not passes), done.stdout
    assert ("written outside of the temporary folder and the caches" in done.stdout) != passes


def test_the_server_that_the_conformance_tests_judge_can_be_named(tmp_path: Path) -> None:
    variables = {
        "KUBEBUILDER_ASSETS": "/opt/envtest",
        "KUBECONFIG": "/home/me/.kube/config",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    }
    kept = surroundings.cleaned(variables, home=tmp_path)
    assert {name for name in kept if name.startswith("KUBE")} == {"KUBEBUILDER_ASSETS"}
