"""The command from a checkout in a path with spaces, read-only, by another user, without a network."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = (
    "constructs", "environments", "hyperpod_ray", "hyperpod_ray_rules", "hyperpod_ray_training", "k8s",
    "lifecycle", "stacks",
)  # fmt: skip
FILES = ("app.py", "cdk.json")
NOBODY = 65534
START = "import os, sys; sys.path += filter(None, [os.environ.get('PACKAGES')]); "
START += "from hyperpod_ray.cli.main import script; script()"


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    """A copy of what the command needs, where nobody may write; outside pytest's folders, which are their owner's."""
    top = Path(tempfile.mkdtemp(prefix="pa th "))
    top.chmod(0o755)
    folder = top / "my clone"
    folder.mkdir()
    for room in ROOMS:
        shutil.copytree(PROJECT / room, folder / room, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copyfile(PROJECT / file, folder / file)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(top)


def somebody_else() -> tuple[str, int | None, dict[str, str]]:
    """An interpreter, a user who is not root, and variables; the user is None where root cannot become another one."""
    if os.geteuid() != 0:
        return sys.executable, None, {}
    packages = str(Path(pytest.__file__).resolve().parents[1])
    system = shutil.which(f"python{sys.version_info.major}.{sys.version_info.minor}", path=os.defpath)
    for python in filter(None, (sys.executable, system)):
        with contextlib.suppress(OSError):
            code = f"import sys; sys.path.append({packages!r}); import pydantic, typer"
            if (
                subprocess.run([python, "-c", code], user=NOBODY, cwd="/", capture_output=True, check=False).returncode
                == 0
            ):
                return python, NOBODY, {"PACKAGES": packages}
    # root writes everywhere, and so does its Python
    return sys.executable, None, {"PYTHONDONTWRITEBYTECODE": "1"}


def state(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["env", "check", "dev"],
        ["env", "show", "dev", "-o", "json"],
        ["env", "needs", "dev"],
        ["cost", "dev", "--offline"],
        ["completion", "bash"],
    ],
    ids=" ".join,
)
def test_nothing_is_written_and_nothing_asked(checkout: Path, words: list[str]) -> None:
    python, user, more = somebody_else()
    before = state(checkout)
    done = subprocess.run(
        [python, "-c", START, *words],
        cwd="/",
        env={
            "PATH": os.defpath,
            "HOME": "/nonexistent",
            "PYTHONPATH": str(checkout),
            "HYPERPOD_RAY_ENVIRONMENTS": str(checkout / "environments"),
            **more,
            # an address that refuses: a command that asked the network would fail
            **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"),
        },
        user=user,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert state(checkout) == before


@pytest.mark.parametrize("target", ["setup", "lint", "types", "docs"])
def test_make_names_no_absolute_path(tmp_path: Path, target: str) -> None:
    """A recipe with the folder's path in it would break at the blank."""
    folder = tmp_path / "pa th" / "my clone"
    folder.mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "package.json", "package-lock.json"):
        shutil.copyfile(PROJECT / name, folder / name)
    (folder / "requirements").mkdir()
    for path in [*PROJECT.glob("requirements*.txt"), *(PROJECT / "requirements").glob("*.txt")]:
        shutil.copyfile(path, folder / path.relative_to(PROJECT))
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", target], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "pa th" not in done.stdout


def test_no_recipe_of_the_makefile_breaks_at_a_space(tmp_path: Path) -> None:
    """What `make` would run in a folder with a space: each path of that folder is one word for the shell."""
    folder = tmp_path / "pa th" / "my clone"
    (folder / "hyperpod_ray" / "image").mkdir(parents=True)
    (folder / "requirements").mkdir()
    for name in ("Makefile", "pyproject.toml", "package.json", "package-lock.json"):
        shutil.copyfile(PROJECT / name, folder / name)
    locks = [*PROJECT.glob("requirements*.txt"), *(PROJECT / "requirements").glob("*.txt")]
    for file in [*locks, *(PROJECT / "hyperpod_ray" / "image").glob("requirements*.txt")]:
        shutil.copyfile(file, folder / file.relative_to(PROJECT))
    targets = ["setup", "emulator-env", "rehearsal-env", "charts", "lint", "types", "test", "demo", "walk"]
    done = subprocess.run(["make", "-n", *targets], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ".venv/bin/python -m pip install" in done.stdout
    assert str(folder) in done.stdout
    for line in done.stdout.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        assert sum(word.count(str(folder)) for word in words) == line.count(str(folder)), line
