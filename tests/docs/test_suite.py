"""The parts of the suite: `make test` runs each file once, `make quick` some of them."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import run

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _a_suite_inside_a_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.run.leash.hold", lambda: None)
    monkeypatch.setattr("tests.run.signal.signal", lambda *_: None)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_every_test_file_is_in_one_part() -> None:
    rest, *folders = run.parts()
    assert rest.paths == (".",)
    for file in sorted((PROJECT / "tests").rglob("test_*.py")):
        path = file.relative_to(PROJECT / "tests").as_posix()
        holders = [part.name for part in folders if _below(path, part.paths) and not _below(path, part.without)]
        assert len(holders) == int(_below(path, rest.without)), path
    assert {part.only for part in folders} == {"", "--walk", "--stories"} <= run.WHAT.keys()


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def test_a_part_that_is_slow_as_a_whole_does_not_start_for_the_others() -> None:
    assert not run.Part(paths=("cli/test_mistakes.py", "sandbox/test_deploys.py")).slow
    assert not run.Part(paths=("sandbox",)).slow
    assert run.Part(paths=("sandbox/test_deploys.py", "rehearsal/slurm/test_slurm_cluster.py")).slow


@pytest.mark.slow
def test_quick_runs_only_what_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = subprocess.run(["make", "-n", "quick"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"python -m tests\.run --quick$", recipe, re.MULTILINE)
    marks = []
    for name, quick in (("slow", False), ("fast", True)):
        mark = tmp_path / name
        (tmp_path / f"test_{name}.py").write_text(f"def test_it():\n    open({str(mark)!r}, 'w').close()\n")
        marks.append(run.Part(paths=(os.path.relpath(tmp_path / f"test_{name}.py", PROJECT / "tests"),), quick=quick))
    monkeypatch.setattr(run, "parts", lambda: list(marks))
    assert run.main(["--quick", "-q", "--noconftest"]) == 0
    assert [(tmp_path / name).exists() for name in ("slow", "fast")] == [False, True]
    assert "the quick part: 1 passed; " in capsys.readouterr().out


def _broken(tmp_path: Path, *, tests: int, times: int) -> list[run.Part]:
    """A part whose tests fail so many times each, and one that passes."""
    (tmp_path / "test_broken.py").write_text(
        "from pathlib import Path\nimport pytest\n"
        f"@pytest.mark.parametrize('number', range({tests}))\n"
        "def test_it(number):\n"
        f"    mark = Path({str(tmp_path)!r}, f'ran-{{number}}')\n"
        "    count = len(mark.read_text()) if mark.exists() else 0\n"
        "    mark.write_text('x' * (count + 1))\n"
        f"    assert count >= {times}, 'the first failure'\n"
        "def test_that_passes():\n"
        f"    with open({str(tmp_path / 'passed')!r}, 'a') as file:\n        file.write('x')\n"
    )
    (tmp_path / "test_whole.py").write_text("def test_it():\n    pass\n")
    return [
        run.Part(paths=(os.path.relpath(tmp_path / name, PROJECT / "tests"),))
        for name in ("test_broken.py", "test_whole.py")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [("", 2, 1, 1, "xx"), ("listed", 2, 1, 0, "xx"), ("", 2, 2, 1, "xx"), ("", run.UNSTEADY + 1, 1, 1, "x")],
    ids=["unsteady", "listed", "broken", "too-many"],
)
def test_a_failed_test_runs_once_more_alone(
    case: tuple[str, int, int, int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that passes then is named, and fails the suite unless it is listed; so do one that fails again, and many."""
    known, tests, times, code, runs = case
    lines = [f"test_broken.py::test_it[{number}] | me | Ray's port is taken\n" for number in range(tests) if known]
    (tmp_path / "unsteady.txt").write_text("".join(["# a comment\n", *lines]))
    monkeypatch.setattr(run, "LISTED", tmp_path / "unsteady.txt")
    monkeypatch.setattr(run, "parts", lambda: _broken(tmp_path, tests=tests, times=times))
    # from a checkout below the temporary folder, the names of the tests would begin there
    assert run.main(["-q", "--noconftest", f"--rootdir={tmp_path}"]) == code
    said = capsys.readouterr().out
    assert "the first failure" in said
    assert "\0" not in said
    assert {(tmp_path / f"ran-{number}").read_text() for number in range(tests)} == {runs}
    assert (tmp_path / "passed").read_text() == "x", "only what failed runs once more"
    named = re.findall(r"^UNSTEADY: \S+::test_it\[(\d)\] failed .*; (.*)", said, re.MULTILINE)
    word = "me: Ray's port is taken" if known else "nobody has listed it"
    assert named == ([(str(number), word) for number in range(tests)] if runs == "xx" and times == 1 else [])


def test_no_test_is_listed_as_unsteady() -> None:
    assert run.listed() == {}


@pytest.mark.parametrize("line", ["tests/a.py::test_a", "tests/a.py::test_a | me", "tests/a.py::test_a | me | "])
def test_a_listed_test_has_an_owner_and_a_reason(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unsteady.txt").write_text(f"{line}\n")
    monkeypatch.setattr(run, "LISTED", tmp_path / "unsteady.txt")
    with pytest.raises(ValueError, match=r"Expected TEST . OWNER . REASON"):
        run.listed()


@pytest.mark.slow
def test_a_part_says_how_long_it_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It and what it started: the parts share the processors, so that the time that passed says little."""
    burn = "import time\nwhile time.process_time() < 2: pass\n"
    text = f"import subprocess, sys\ndef test_it():\n    subprocess.run([sys.executable, '-c', {burn!r}])\n"
    (tmp_path / "test_burn.py").write_text(text)
    (tmp_path / "test_wait.py").write_text("def test_it():\n    pass\n")
    names = [os.path.relpath(tmp_path / f"test_{name}.py", PROJECT / "tests") for name in ("burn", "wait")]
    monkeypatch.setattr(run, "parts", lambda: [run.Part(paths=(name,)) for name in names])
    assert run.main(["-q", "--noconftest"]) == 0
    said = dict(re.findall(r"test_(burn|wait)\.py: passed in \d+ s, (\d+) s of", capsys.readouterr().out))
    assert int(said["burn"]) >= 2


@pytest.mark.slow
def test_a_part_that_did_not_come_to_its_end_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another part's test is unsteady."""
    cut = tmp_path / "test_cut.py"
    cut.write_text("import os\ndef test_it():\n    os._exit(1)\n")
    parts = [*_broken(tmp_path, tests=1, times=1), run.Part(paths=(os.path.relpath(cut, PROJECT / "tests"),))]
    monkeypatch.setattr(run, "parts", lambda: parts)
    assert run.main(["-q", "--noconftest"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("target", ["walk", "stories"])
def test_a_target_runs_its_parts_and_the_suite_does_not(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For `make walk` and `make stories`."""
    recipe = subprocess.run(["make", "-n", target], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert re.search(rf"python -m tests\.run --{target}( -rs)?$", recipe, re.MULTILINE)
    mine = [part for part in run.parts() if part.only == f"--{target}"]
    assert mine
    assert all((PROJECT / "tests" / path).is_file() for part in mine for path in part.paths)
    marks = []
    for name, only in (("usual", ""), ("own", f"--{target}")):
        mark = tmp_path / name
        (tmp_path / f"test_{name}.py").write_text(f"def test_it():\n    open({str(mark)!r}, 'w').close()\n")
        marks.append(run.Part(paths=(os.path.relpath(tmp_path / f"test_{name}.py", PROJECT / "tests"),), only=only))
    for options, ran in (([f"--{target}"], [False, True]), ([], [True, False])):
        monkeypatch.setattr(run, "parts", lambda: [dataclasses.replace(part) for part in marks])
        assert run.main([*options, "-q", "--noconftest"]) == 0
        assert [(tmp_path / name).exists() for name in ("usual", "own")] == ran
        for name in ("usual", "own"):
            (tmp_path / name).unlink(missing_ok=True)
    assert "the suite: " in capsys.readouterr().out


@pytest.mark.slow
def test_the_older_torch_runs_the_fast_tests_of_what_rehearsals_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an environment of its own, with the torch of the lock of an image."""
    recipe = subprocess.run(
        ["make", "-n", "-W", "requirements/rehearsal.txt", "test-torch"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert re.search(r"python -m tests\.run --torch$", recipe, re.MULTILINE)
    lock = (PROJECT / "hyperpod_ray" / "image" / "requirements-cu128.txt").read_text()
    torch = re.search(r"^torch==\S+", lock, re.MULTILINE)
    assert torch
    assert f".venv-torch/bin/python -m pip install --quiet {torch[0]}\n" in recipe
    ours, rehearsal = tmp_path / "ours", tmp_path / "rehearsal"
    text = "import pytest\ndef test_fast():\n    open({mark!r}, 'a').write('fast')\n"
    text += "@pytest.mark.slow\ndef test_slow():\n    open({mark!r}, 'a').write('slow')\n"
    parts = []
    for mark, interpreter in ((ours, Path(sys.executable)), (rehearsal, run.REHEARSAL)):
        file = tmp_path / f"test_{mark.name}.py"
        file.write_text(text.format(mark=str(mark)))
        parts.append(run.Part(paths=(os.path.relpath(file, PROJECT / "tests"),), interpreter=interpreter))
    monkeypatch.setattr(run, "parts", lambda: parts)
    monkeypatch.setattr(run, "OLDER_TORCH", Path(sys.executable))
    assert run.main(["--torch", "-q", "--noconftest"]) == 0
    assert not ours.exists()
    assert rehearsal.read_text() == "fast"
    assert "the older torch: 1 passed; " in capsys.readouterr().out


@pytest.mark.slow
def test_deploys_are_slow_tests_of_parts_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = subprocess.run(["make", "-n", "test-deploys"], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert re.search(r"python -m tests\.run --deploys$", recipe.stdout, re.MULTILINE)
    assert {path for part in run.parts() if part.deploys for path in part.paths} >= {
        "project",
        "docs",
        "stacks",
        "review/test_settings.py",
    }
    with_ray = [part for part in run.parts() if "resilience/test_in_ray.py" in part.paths or "rehearsal" in part.paths]
    assert len(with_ray) == 2
    assert not any(part.deploys for part in run.parts() if part in with_ray or part.only)
    text = "import pytest\ndef test_fast():\n    open({fast!r}, 'w')\n"
    text += "@pytest.mark.slow\ndef test_slow():\n    open({slow!r}, 'w')\n"
    text += "@pytest.mark.slow\n@pytest.mark.rest\ndef test_rest():\n    open({slow!r} + '-rest', 'w')\n"
    parts = []
    for name, deploys in (("in", True), ("out", False)):
        file = tmp_path / f"test_{name}.py"
        file.write_text(text.format(fast=str(tmp_path / f"{name}-fast"), slow=str(tmp_path / f"{name}-slow")))
        parts.append(run.Part(paths=(os.path.relpath(file, PROJECT / "tests"),), deploys=deploys))
    monkeypatch.setattr(run, "parts", lambda: parts)
    assert run.main(["--deploys", "-q", "--noconftest"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".py" and path.is_file()) == ["in-slow"]
