"""Runs whose folders somebody else wrote into: commands that read them show their own rows, and steer no terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.ops import in_ray
from tests.ops.ops_team_runs_helpers import package, wrapped
from tests.ops.test_pull import call, checkpoint
from tests.ops.test_pull import runs as runs  # noqa: PLC0414 - a fixture

TITLE, CLIPBOARD, CSI_8BIT, RIGHT_TO_LEFT = "\x1b]0;owned\x07", "\x1b]52;c;cm0gLXJmIC8=\x07", "\x9b2J", "\u202e"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""ECMA-48 C0 and C1 controls but tab and newline, and Unicode's bidirectional overrides and isolates."""
HOSTILE = f"first{TITLE}{CLIPBOARD}{CSI_8BIT}{RIGHT_TO_LEFT}"


@pytest.fixture
def hostile(runs: Path) -> Path:
    """The friendly run `first`, and beside it one whose every text has terminal controls."""
    run = runs / "hostile"
    checkpoint(run, 10, loss=0.1)
    about = {"step": 10, "metrics": {"loss": 0.1, f"acc{TITLE}": 1.0}}
    (run / "step-00000010-abc123" / "about.json").write_text(json.dumps(about))
    progress = {"name": HOSTILE, "state": HOSTILE, "last_step": 10, "last_error": HOSTILE, "attempt": HOSTILE,
                "metrics": {f"loss{TITLE}": 1.0}, "last_checkpoint_path": HOSTILE}  # fmt: skip
    (run / "progress.json").write_text(json.dumps(progress))
    lines = [{"t": 1.0, "kind": "start"}, {"t": 2.0, "kind": "step", "step": 1, "loss": 1.0},
             {"t": 3.0, "kind": "error", "message": HOSTILE}]  # fmt: skip
    (run / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return runs


@pytest.mark.parametrize(
    "words",
    [
        ["list", "demo"],
        ["show", "demo", HOSTILE],
        ["best", "demo", HOSTILE],
        ["best", "demo", HOSTILE, "--metric", "none"],
        ["compare", "demo", HOSTILE, "first"],
        ["plot", "demo", HOSTILE],
        ["pull", "demo", HOSTILE, "--to", "out"],
        ["show", "demo", "no-such-run"],
    ],
    ids=lambda words: words[0],
)
def test_no_text_of_a_run_steers_the_terminal(
    hostile: Path, words: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    main(["runs", *words, "--here", str(hostile)])
    out, err = capfd.readouterr()
    assert out + err
    assert not STEERING.search(out + err), repr(STEERING.search(out + err))


def test_the_friendly_runs_rows_are_as_they_were(hostile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list", "demo", "-o", "json", "--here", str(hostile)]) == 0
    listed = {run["name"]: run for run in json.loads(capfd.readouterr().out)["runs"]}
    (other,) = set(listed) - {"first"}
    assert other.isprintable(), "the reader cuts what steers a terminal, also for JSON"
    assert listed["first"]["progress"]["step"] == 40


@pytest.mark.parametrize(
    "line",
    [
        '{"t": 1.5, "note": "mine"}',
        '{"t": 1.5, "kind": 7}',
        '{"t": 1.5, "kind": {"a": 1}, "step": 2}',
        '{"t": true, "kind": "error"}',
        '{"t": NaN, "kind": "error"}',
        '{"t": 1e999, "kind": "error"}',
        '{"t": 1e300, "kind": "error"}',
        '{"t": 1' + "0" * 400 + ', "kind": "error"}',
        '{"t": 1.5, "kind": "step", "step": true}',
        '{"t": 1.5, "kind": "step", "step": 1' + "0" * 400 + "}",
        '{"t": 1.5, "kind": "step", "step": [1]}',
        "[" * 100_000,
        '{"t": ' * 100_000,
        '{"t": 1.5, "kind": "step"',
        "\x00\xff",
    ],
    ids=range(15),
)
def test_a_stray_line_harms_no_other_run(runs: Path, line: str, capfd: pytest.CaptureFixture[str]) -> None:
    run = runs / "stray"
    checkpoint(run, 10, loss=0.1)
    (run / "events.jsonl").write_text(f'{{"t": 1, "kind": "start"}}\n{line}\n{{"t": 2, "kind": "step", "step": 3}}\n')
    assert main(["runs", "list", "demo", "-o", "json", "--here", str(runs)]) == 0
    listed = {run["name"]: run["progress"]["step"] for run in json.loads(capfd.readouterr().out)["runs"]}
    assert listed == {"first": 40, "stray": 3}
    assert main(["runs", "show", "demo", "stray", "--here", str(runs)]) == 0
    assert call(runs, "--last") == 0, "the other run is pulled all the same"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


def nested(path: Path) -> None:
    path.write_text('{"t": 1.0, "kind": "error", "message": ' + "[" * 200_000)


@pytest.mark.parametrize(
    ("plant", "file"),
    [
        *((plant, file) for plant in (pipe, endless, nested)
          for file in ("progress.json", "events.jsonl", "step-00000010-abc123/about.json")),
        *((huge, file) for file in ("progress.json", "step-00000010-abc123/about.json")),
        (pipe, "step-00000010-abc123/checksums-9.json"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)  # fmt: skip
def test_a_file_without_an_end_stops_no_reader(runs: Path, plant: Callable[[Path], None], file: str) -> None:
    """Reading a pipe waits, and reading a device or a file of a terabyte does not end: other runs' rows still come."""
    checkpoint(runs / "hostile", 10, loss=0.1)
    (runs / "hostile" / file).unlink(missing_ok=True)
    plant(runs / "hostile" / file)
    limited = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); del sys.argv[0]; "
    )
    limited += "runpy.run_module(sys.argv[0], run_name='__main__')"
    module, *words = (
        ("files", "key", str(runs / "hostile" / "step-00000010-abc123")) if "checksums" in file else
        ("runs", "--all", str(runs))
    )  # fmt: skip
    log = runs.parent / "log"
    with log.open("w") as stream:
        program = subprocess.run(
            [sys.executable, "-c", limited, f"hyperpod_ray.ops.in_ray.{module}", *words],
            stdout=stream,
            timeout=300,
            check=False,
        )
    (line,) = [line for line in log.read_text().splitlines() if line.startswith("HYPERPOD-RAY-RUNS ")]
    assert program.returncode == 0
    answer = json.loads(line.removeprefix("HYPERPOD-RAY-RUNS "))
    if module == "files":
        assert answer["files"]
    else:
        assert {Path(run["folder"]).name for run in answer} == {"first", "hostile"}
        (first,) = [run for run in answer if run["folder"].endswith("first")]
        assert first["progress"]["last_step"] == 40


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"__0_0.distcp": "1"}', b'{"__0_0.distcp": -1}', b"[" * 100_000,
     b'{"__0_0.distcp": true}', b'{"__0_0.distcp": 4294967296}', b'{"__0_0.distcp": 1.0}'],
    ids=range(11),
)  # fmt: skip
def test_damaged_checksums_are_no_checksums(runs: Path, content: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    (runs / "first" / "step-00000030-abc123" / "checksums-0.json").write_bytes(content)
    assert call(runs, "--last") == 3
    said = capfd.readouterr().err
    assert "checksums-0.json is damaged" in said and "--step names one" in said
    assert not Path("out").exists()
    assert call(runs, "--step", "20") == 0, "what the message says to do works"


def test_the_head_says_which_checksums_are_damaged(tmp_path: Path) -> None:
    """The module as it runs in the head's pod, whose log is a file."""
    import subprocess
    import sys

    folder = checkpoint(tmp_path / "run", 10, loss=1.0)
    (folder / "checksums-0.json").write_bytes(b"\xff")
    package(tmp_path / "code")
    words = [sys.executable, "-m", f"{in_ray.PACKAGE}.files", "key", str(folder)]
    log = tmp_path / "job.log"
    with log.open("wb") as stream:
        subprocess.run(words, cwd=tmp_path / "code", stdout=stream, check=True)
    answer = json.loads(log.read_text().splitlines()[-1].partition(" ")[2])
    assert answer["damaged"] == "checksums-0.json is damaged: UnicodeDecodeError"
    assert (answer["files"], answer["link"]) == ([], "")


def test_a_file_in_the_runs_folder_is_no_secret(tmp_path: Path) -> None:
    """A run's folder is on storage that others write: a file there with a Secret's name is not that Secret."""
    code = package(tmp_path / "code")
    run = tmp_path / "run"
    (run / "hugging-face").mkdir(parents=True)
    (run / "hugging-face" / "token").write_text("planted")
    variables = {
        in_ray.SECRETS_VARIABLE: json.dumps({"HF_TOKEN": "hugging-face/token"}),
        in_ray.RUN_FOLDER_VARIABLE: str(run),
    }
    process = wrapped(code, "echo got-$HF_TOKEN", **variables)
    log, _ = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "planted" not in log
    mounted = tmp_path / "mounted"
    (mounted / "hugging-face").mkdir(parents=True)
    (mounted / "hugging-face" / "token").write_text("true-one\n")
    process = wrapped(code, "echo got-$HF_TOKEN", HYPERPOD_RAY_SECRETS_FOLDER=str(mounted), **variables)
    log, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert "got-true-one\n" in log


def test_checksums_of_a_whole_file_are_read() -> None:
    from hyperpod_ray.ops.in_ray.files import checksums

    assert checksums("c", json.dumps({"a": zlib.crc32(b"x")}).encode()) == {"a": zlib.crc32(b"x")}
