"""Hostile surroundings change no answer, and a test that writes elsewhere fails."""

from __future__ import annotations

import os
import subprocess
import sys
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
