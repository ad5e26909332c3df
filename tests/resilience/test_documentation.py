"""What docs/make-your-script-survive.md shows is run here: its script, its commands, its submit line, its table."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, job_environment

from docs import changed_lines
from hyperpod_ray_training.settings import Settings

PAGE = (ROOT / "docs" / "make-your-script-survive.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{re.escape(kind)}\n(.*?)^```", PAGE, re.M | re.S)


def test_no_script_of_others_changes_more_than_ten_lines() -> None:
    lines = changed_lines.counts()
    assert len(lines) > 50
    assert {name: number for name, number in lines.items() if not 0 < number <= 10} == {}
    plain, surviving = changed_lines.shapes()["recurrent"]
    assert "hyperpod" not in plain
    assert "Values" not in plain
    assert "kept.hidden" in surviving


RECIPES = ("epochs", "everything", "pause", "exact", "rows")


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_run(name: str, tmp_path: Path) -> None:
    """As they stand, around a `Resumable` that takes the same arguments and only counts."""
    import contextlib
    import inspect
    from collections.abc import Iterator
    from typing import Any

    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch
    from torch.utils.data import DataLoader

    import hyperpod_ray_training as resilience
    from hyperpod_ray_training.batches import Position
    from hyperpod_ray_training.looping import Looping

    made: list[Any] = []

    class Here(Looping):
        def __init__(self, run: Any, **given: Any) -> None:
            inspect.signature(resilience.Resumable).bind(run, **given)
            self.position, self.device, self.pauses, self.done = Position(), torch.device("cpu"), 0, False
            made.append(self)

        def restore(self) -> None: ...

        def finished(self, step: int, **_: float) -> None:
            self.step = step + 1

        def finish(self) -> None:
            self.done = True

        @contextlib.contextmanager
        def pause(self) -> Iterator[None]:
            self.pauses += 1
            yield

    pq.write_table(pa.table({"x": pa.array([[0.5] * 4] * 50, pa.list_(pa.float32()))}), tmp_path / "rows.parquet")
    (block,) = blocks(f"python recipe={name}")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    validated: list[int] = []
    names = {
        "Resumable": Here, "Values": resilience.Values, "EpochBatches": resilience.EpochBatches,
        "Rows": resilience.Rows, "data": str(tmp_path), "torch": torch, "model": model, "optimizer": optimizer,
        "config": {"run": None}, "loader": DataLoader(torch.randn(10, 4), 2), "validate": lambda: validated.append(1),
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3), "scaler": torch.amp.GradScaler("cpu"),
        "ema": torch.optim.swa_utils.AveragedModel(model), "train_one": lambda step: 0.0,
    }  # fmt: skip
    exec(block, names)  # noqa: S102 - the page's own lines
    assert made[0].done
    assert made[0].step == {"epochs": 10, "everything": 6, "pause": 4, "exact": 12, "rows": 12}[name]
    assert made[0].pauses == 2
    assert len(validated) == (0 if name in ("everything", "exact", "rows") else 2)


def test_no_block_is_left_untested() -> None:
    assert set(re.findall(r"^```(.+)$", PAGE, re.M)) == {
        "python title=mine.py", "bash", "bash submit", "bash export", *(f"python recipe={name}" for name in RECIPES)
    }  # fmt: skip


@pytest.mark.slow
def test_the_ten_lines_resume(tmp_path: Path) -> None:
    (script,) = blocks("python title=mine.py")
    assert len(re.findall(r"  # \d( |$)", script, re.M)) <= 10
    (tmp_path / "mine.py").write_text(script)
    # the venv's packages, for an interpreter reached by another path
    environment = job_environment(PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    for command in blocks("bash"):
        done = subprocess.run(
            ["bash", "-ec", command], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "runs/first/events.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == list(range(1, 61))  # none twice, none missing
    assert [line["step"] for line in lines if line["kind"] == "restore"] == [40]


def test_the_submit_line_is_one_that_ray_and_the_job_understand(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = blocks("bash submit")
    words = shlex.split(line.replace("\\\n", " "))
    options, entrypoint = words[: words.index("--")], words[words.index("--") + 1 :]
    from click.testing import CliRunner
    from ray.dashboard.modules.job import cli

    seen: dict[str, object] = {}

    class Client:
        def __init__(self, *_: object, **__: object) -> None: ...

        def get_version(self) -> str:
            return "1"

        def submit_job(self, **fields: object) -> str:
            seen.update(fields)
            return "id"

    monkeypatch.setattr(cli, "_get_sdk_client", lambda *_, **__: Client())
    done = CliRunner().invoke(cli.submit, [*options[3:], "--no-wait", "--", *entrypoint])
    assert done.exit_code == 0, done.output
    runtime = seen["runtime_env"]
    assert isinstance(runtime, dict)
    assert entrypoint[:3] == ["python", "-m", "hyperpod_ray_training.supervise"]
    assert (ROOT / runtime["working_dir"] / entrypoint[3]).is_file()
    assert [(ROOT / module / "resumable.py").is_file() for module in runtime["py_modules"]] == [True]
    # and the job takes those arguments
    from hyperpod_ray_training import add_arguments, run_from

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arguments, rest = parser.parse_known_args(entrypoint[4:])
    assert run_from(arguments).url == "/fsx/runs/first"
    assert rest == ["--steps", "1000"]


def test_the_readme_s_first_job_is_one_that_the_job_understands(
    run_job: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    text = (ROOT / "README.md").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^hyperpod-ray submit (.*)$", text, re.M)
    words = shlex.split(line)
    options, entrypoint = words[: words.index("--")], words[words.index("--") + 1 :]
    folder = ROOT / options[options.index("--working-dir") + 1]
    assert folder / entrypoint[1] == ROOT / "jobs" / folder.name / "train.py"
    help_ = run_job(folder.name, "--help").stderr  # both streams
    given = [word for word in entrypoint if word.startswith("--")]
    assert given
    assert [word for word in given if f"{word} " not in help_] == []


def test_the_settings_table_has_every_setting_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", PAGE, re.M))
    assert rows == {field.name: str(field.default) for field in dataclasses.fields(Settings)}


def test_the_export_line_is_one_that_the_module_understands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from hyperpod_ray_training import errors, export

    (block,) = blocks("bash export")
    (line,) = (line for line in block.splitlines() if line.startswith("python -m "))
    _, _, module, run, target, option, like = shlex.split(line)
    assert (module, option, like[:4]) == ("hyperpod_ray_training.export", "--like", "/fsx")
    (tmp_path / "like").mkdir()
    monkeypatch.setattr(
        sys, "argv", ["export", str(tmp_path / run[1:]), str(tmp_path / target[1:]), option, str(tmp_path)]
    )
    with pytest.raises((errors.InputError, SystemExit)) as refused:
        export.main()
    assert "no usable checkpoint" in str(refused.value)
