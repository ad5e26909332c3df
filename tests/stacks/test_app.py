"""`synthesize` of a project's `app.py`: what it reads, what it says, its exit codes, and what a project adds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.stacks import app
from tests.stacks.assembled import PROJECT

GOOD = (FOLDER / "examples" / "slurm.yaml").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Two environments on Slurm, the smallest that there are; the second has a setting that earns a warning."""
    folder = tmp_path / "environments"
    folder.mkdir()
    (folder / "small.yaml").write_text(GOOD, encoding="utf-8")
    other = GOOD.replace("cluster_name: train-slurm", "cluster_name: other")
    (folder / "warned.yaml").write_text(f"{other}\nbudget: {{usd_per_month: 1}}\n", encoding="utf-8")
    yield folder
    gc.enable()  # a command's process is short; this one is not


def synthesize(folder: Path, out: Path, env: str = "", **more: Any) -> int:
    context = {"environments": str(folder), **({"env": env} if env else {})}
    return app.synthesize(PROJECT, outdir=str(out), context=context, **more)


def broken(folder: Path, name: str) -> None:
    settings = yaml.safe_load(GOOD)
    settings["region"] = "us-west-9"
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def test_every_broken_file_is_named_and_nothing_is_built(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(folder, "first")
    broken(folder, "second")
    assert synthesize(folder, tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "first.yaml:" in said
    assert "second.yaml:" in said
    assert not list((tmp_path / "out").glob("*.json"))


@pytest.mark.slow
def test_one_environment_is_asked_for(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-c env=NAME` reads no other file: a broken one beside it does no harm."""
    broken(folder, "first")
    assert synthesize(folder, tmp_path / "out", env="small") == 0
    assert [path.name for path in (tmp_path / "out").glob("assembly-*")] == ["assembly-small"]
    assert synthesize(folder, tmp_path / "none", env="nobody") == 2
    assert "nobody" in capsys.readouterr().err


def test_warnings_are_said_and_each_environment_is_extended(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a project cannot add ends with its message, before the templates are written."""
    import aws_cdk as cdk
    from aws_cdk import aws_cloudwatch as cloudwatch
    from aws_cdk import aws_sqs as sqs

    extended = []

    def extend(stage: Any) -> None:
        extended.append(stage.plan.name)
        queue = sqs.Queue(cdk.Stack(stage, "Company"), "Queue")
        for title, named in (("by name", queue.queue_name), ("by ARN", f"of {queue.queue_arn}")):
            with pytest.raises(ValueError, match=f"a widget refers to {stage.plan.name}/Company/Queue/Resource"):
                stage.add_dashboard_row(cloudwatch.TextWidget(markdown=f"{title}: {named}"))
        with pytest.raises(ValueError, match="a widget refers to"):
            stage.add_dashboard_row(cloudwatch.GraphWidget(left=[queue.metric_number_of_messages_sent()]))
        stage.add_dashboard_row(cloudwatch.TextWidget(markdown="our own words"))
        if len(extended) == 2:
            raise ProjectError("charts.lock.yaml: missing", expected="a lock", fix="write one")

    assert synthesize(folder, tmp_path / "out", extend=extend) == 2
    assert extended == ["small", "warned"]
    said = capsys.readouterr().err
    assert "warning: " in said
    assert "warned.yaml:" in said
    assert "charts.lock.yaml: missing. Expected a lock. Fix: write one" in said
