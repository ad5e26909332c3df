"""What a command refuses before it asks anybody: the value, what was expected, and the fix, as somebody reads them."""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli import new, synthesis
from hyperpod_ray.cli.main import main
from hyperpod_ray.cli.synthesis import assembly
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, ERROR, OpsError
from hyperpod_ray.ops.reach.jobs_api import Jobs

JOB = "ray-job dev --name train --entrypoint 'python train.py'"
ONE_OF_TWO = "one of the two: KubeRay gives the runs of a RayCronJob no labels"
WITHOUT_BASE = ("--deployed with another base", "one environment, and no base", "hyperpod-ray review prod --deployed")
TIME = ("15m, 2h, 3d or 2026-11-21T17:40:00Z", "correct --since or --until")
NEW = "env new staging --account 111122223333"
REFUSED = {
    f"{JOB} --time-zone UTC": ("--time-zone: 'UTC'", "a schedule", "add --schedule"),
    f"{JOB} --schedule '0 3 * * *' --queue research": (
        "--queue: with --schedule", ONE_OF_TWO, "remove --queue or --schedule",
    ),
    f"{JOB} --schedule '0 3 * * *' --priority high": (
        "--queue: with --schedule", ONE_OF_TWO, "remove --queue or --schedule",
    ),
    "review --deployed": WITHOUT_BASE,
    "review dev --deployed --base main": WITHOUT_BASE,
    "review dev --deployed --head main": WITHOUT_BASE,
    "review dev --deployed --base-assembly folder": WITHOUT_BASE,
    "review dev": (
        "no revision to compare with", "--base REVISION, or --base-assembly and --head-assembly",
        "hyperpod-ray review --base origin/main",
    ),
    "review dev --base main --fail-on cheap": (
        "--fail-on: 'cheap'",
        "one of never, any-change, weakens, interrupts, loses-nodes, loses-data, rejected, any-rejected, any-weakened, "
        "or costs= with an amount of dollars per month or a percentage",
        "hyperpod-ray review --base origin/main --fail-on costs=10%",
    ),
    "submit dev": (
        "no command to submit", "a command after --, or a job file",
        "hyperpod-ray submit dev -- python train.py, or hyperpod-ray submit dev -f job.yaml",
    ),
    "logs dev --since 2026-11-21T17:40:00Z --until 2026-11-21T17:40:00Z": (
        "--until: 2026-11-21T17:40:00Z", "a time after --since 2026-11-21T17:40:00Z", "exchange the two, or remove one",
    ),
    "logs dev --since 2h --until 1h --follow": (
        "--follow with --until: both given", "one: --follow has no end", "remove --until",
    ),
    "logs dev --since yesterday": ("time: 'yesterday'", *TIME),
    "logs dev --since 1w": ("time: '1w'", *TIME),
    "logs dev --since 1969-12-31T23:59:59Z": ("time: '1969-12-31T23:59:59Z'", *TIME),
    "env new": ("no name", "the new environment's name", "hyperpod-ray env new NAME"),
    f"{NEW} --region eu-west-1 --type ml.g5.48xlarge": (
        "--count is missing", "number of worker nodes", "add --count, or run it at a terminal",
    ),
    f"{NEW} --region eu-west-1 --count 2": (
        "--type is missing", "instance type of the workers in eu-west-1", "add --type, or run it at a terminal",
    ),
    f"{NEW} --count 2 --type ml.g5.48xlarge": (
        "--region is missing", "region", "add --region, or run it at a terminal",
    ),
    "env new staging": (
        "--account is missing", "AWS account (12 digits)", "add --account, or run it at a terminal",
    ),
    "env new --list-types": ("--region is missing", "region", "add --region, or run it at a terminal"),
    f"{NEW} --region eu-west-1 --count 2 --type g5.48xlarge": (
        "--type: 'g5.48xlarge'", "an accelerated type that eu-west-1 offers", "did you mean 'ml.g5.48xlarge'?",
    ),
    f"{NEW} --region eu-west-1 --count 2 --type abc": (
        "--type: 'abc'", "an accelerated type that eu-west-1 offers",
        "hyperpod-ray env new --list-types --region eu-west-1",
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder named `folder` in the current one, and the environment `dev`."""
    shipped = Path(__file__).resolve().parents[2] / "environments" / "dev.yaml"
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "dev.yaml").write_bytes(shipped.read_bytes())
    (tmp_path / "folder").mkdir()
    (tmp_path / "cdk.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("line", REFUSED)
def test_the_value_what_is_expected_and_the_fix(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    what, expected, fix = REFUSED[line]
    assert main(shlex.split(line)) == BAD_USE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"error: {what}. Expected {expected}\nFix: {fix}\n"


def test_a_folder_that_is_no_assembly(folder: Path) -> None:
    with pytest.raises(OpsError) as caught, assembly("dev", given=Path("folder")):
        pass
    assert caught.value.message == "no assembly: folder. Expected a folder that `cdk synth` wrote"
    assert (caught.value.fix, caught.value.code) == ("hyperpod-ray deploy dev, which synthesizes it", BAD_USE)
    (folder / "folder" / "manifest.json").touch()
    with assembly("dev", given=Path("folder")) as given:
        assert given == folder / "folder", "in full: cdk starts in another folder"


def test_a_synthesis_that_fails_ends_with_its_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def cdk(env: str, verb: list[str], *, out: Path, validate: bool) -> int:
        asked.append((env, verb, out.name, validate))
        return 7

    monkeypatch.setattr(synthesis, "cdk", cdk)
    with pytest.raises(OpsError, match="cdk synth failed: exit code 7") as caught, assembly("dev", given=None):
        pass
    assert (caught.value.fix, caught.value.code) == ("see its messages above", ERROR)
    assert asked == [("dev", ["synth", "--quiet"], "cdk.out", True)]


def test_a_configuration_that_is_no_json_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cdk.json").write_text("{'app': 1}")
    assert main(["diff", "dev"]) == BAD_USE
    said = capsys.readouterr().err
    assert said.startswith(f"error: {folder / 'cdk.json'}: no JSON: Expecting property name")
    assert "Expected the configuration of the cdk CLI\nFix: correct the line\n" in said


@pytest.mark.parametrize("url", ["https://127.0.0.1:8265", "127.0.0.1:8265", "http://", "ray://127.0.0.1:10001", ""])
def test_an_address_is_plain_http_with_a_host(url: str) -> None:
    """A dashboard of Ray speaks HTTP: https://docs.ray.io/en/latest/cluster/running-applications/job-submission/."""
    with pytest.raises(OpsError) as caught:
        Jobs(url)
    assert caught.value.message == f"--address: '{url}'. Expected http://HOST:PORT"
    assert (caught.value.fix, caught.value.code) == ("give the address that `hyperpod-ray connect` prints", BAD_USE)
    jobs = Jobs("http://head")
    assert (jobs._host, jobs._port) == ("head", 8265), "Ray's own port"
    assert Jobs("http://head:80")._port == 80


# --- the questions of `env new` ---------------------------------------------------------------------------------------


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What somebody types at a terminal."""
    monkeypatch.setattr(output, "interactive", lambda: True)
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_an_empty_line_is_asked_again_and_the_end_of_the_input_ends_it(
    typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("\n  \n eu-west-1 \nnext\n")
    assert new._asked("region", "--region", choices=lambda: ["eu-west-1", "us-west-2"]) == "eu-west-1"
    assert capsys.readouterr().err == "  eu-west-1  us-west-2\nregion: region: region: "
    typed("")
    with pytest.raises(OpsError) as caught:
        new._asked("region", "--region")
    assert caught.value.message == "nothing was written: no answer. Expected a line on stdin"
    assert (caught.value.fix, caught.value.code) == ("hyperpod-ray env new --help shows the options", BAD_USE)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_a_number_of_nodes_is_whole_and_from_1(text: str) -> None:
    with pytest.raises(OpsError) as caught:
        new._number(text)
    assert caught.value.message == f"number of worker nodes: '{text}'. Expected a whole number from 1"
    assert (caught.value.fix, caught.value.code) == ("--count 1 or more", BAD_USE)
    assert new._number("1") == 1


def test_choices_fill_columns_of_equal_width() -> None:
    assert new._columns(["a", "bbb", "cc"], width=10) == ["a    bbb", "cc"]
    assert new._columns(["a", "bbb"], width=3) == ["a", "bbb"], "one a line where two have no room"
