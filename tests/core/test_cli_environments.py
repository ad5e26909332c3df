"""`hyperpod-ray env`, as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from docs import settings_page
from hyperpod_ray import core
from hyperpod_ray.cli.main import main as cli
from hyperpod_ray.core import model, needs
from hyperpod_ray.core.loader import FOLDER, environment_names
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.model.words import Settings
from tests.support import forked

PROJECT = FOLDER.parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.text(forked.command("env", *arguments))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in environment_names():
        (tmp_path / f"{name}.yaml").write_text((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def test_good_files_are_ok() -> None:
    done = run("check")
    assert (done.returncode, done.stdout) == (0, "ok dev\nok local\nok prod\n")
    assert [line for line in done.stderr.splitlines() if not line.startswith("note: ")] == []


def test_a_bad_file_is_exit_code_2_with_everything_on_stderr() -> None:
    done = run("check", "local", "nowhere", "prod")
    assert done.returncode == 2
    assert done.stdout == "ok local\nok prod\n"
    assert done.stderr.startswith("environments/nowhere.yaml:1: (file): no environment 'nowhere'")
    assert "Traceback" not in done.stderr


def test_all_problems_of_all_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("dev", "prod"):
        text = (folder / f"{name}.yaml").read_text(encoding="utf-8")
        (folder / f"{name}.yaml").write_text(text.replace("region: us-west-2", "region: west"), encoding="utf-8")
    assert cli(["--environments", str(folder), "env", "check"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "ok local\n"
    assert [line.split(":")[0] for line in printed.err.splitlines()] == [
        str(folder / f"{name}.yaml") for name in ("dev", "prod")
    ]


def test_json_has_the_parts_of_each_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "dev.yaml").write_text((folder / "dev.yaml").read_text().replace("ml.g5.48xlarge", "ml.g5.48xlage"))
    assert cli(["--environments", str(folder), "env", "check", "dev", "-o", "json"]) == 2
    (result,) = json.loads(capsys.readouterr().out)["environments"]
    (problem,) = [problem for problem in result["problems"] if problem["severity"] == "error"]
    assert problem.keys() == {"path", "what", "expected", "fix", "file", "line", "severity"}
    assert (problem["expected"], problem["what"][:15]) == (
        "a listed type, or the specification of a new one",
        "'ml.g5.48xlage'",
    )
    assert problem["fix"].startswith("did you mean 'ml.g5.48xlarge'?")


def test_what_a_deployment_is_refused_for_is_noted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is good; the record of digests, which the deployment needs, is beside it."""
    plan = core.Plan(name="prod", settings=core.load("prod").settings)
    missing = needs.without_digest(plan)
    assert cli(["--environments", str(folder), "env", "check", "prod"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "ok prod\n"
    noted = f"note: prod cannot be deployed yet: no digest is recorded for {', '.join(missing)}. Fix: {needs.PIN}\n"
    assert printed.err.endswith(noted if missing else "only\n")


def test_a_spare_that_does_not_pay_is_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan of the section `training`, in a check of the file: prod with a ninth node."""
    text = (folder / "prod.yaml").read_text(encoding="utf-8")
    (folder / "prod.yaml").write_text(text.replace("count: 8", "count: 9", 1), encoding="utf-8")
    assert cli(["--environments", str(folder), "env", "check", "prod"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "ok prod (1 warning)\n"
    assert "1 spare for 8 nodes: a useful GPU-hour costs 12% more with it" in printed.err


def test_warnings_are_shown_and_do_not_fail(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "local.yaml").read_text(encoding="utf-8")
    (folder / "local.yaml").write_text(f"{text}\n  # more\n".replace("count: 2 ", "count: 1 ", 1), encoding="utf-8")
    assert cli(["--environments", str(folder), "env", "check", "local"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "ok local (1 warning)\n"
    assert "warning: hyperpod.instance_groups[0].count: the head's group has 1 node" in printed.err


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["--environments", str(tmp_path), "env", "check"]) == 2
    assert "no environment: " in capsys.readouterr().err


def test_bad_use_is_exit_code_2() -> None:
    assert run("chekc").returncode == 2


def test_no_validator_of_the_whole_model_is_built() -> None:
    """Each section has been validated: the whole costs a twentieth of a check."""
    code = "from hyperpod_ray import core; print(type(core.load('local').settings).__pydantic_complete__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_annotations_of_the_model_are_no_strings() -> None:
    """Pydantic would evaluate each string at every start."""
    models = [
        value for name, module in sys.modules.items() if name.startswith(f"{model.__name__}.")
        for value in vars(module).values() if isinstance(value, type) and issubclass(value, Settings)
    ]  # fmt: skip
    assert len(models) > 60
    annotations = [annotation for each in models for annotation in each.__annotations__.values()]
    assert not [annotation for annotation in annotations if isinstance(annotation, str)]


def test_nothing_heavy_is_imported() -> None:
    """The package starts fast because it needs pydantic and PyYAML only."""
    code = (
        "import sys; before = set(sys.modules); "
        "from hyperpod_ray import core; import hyperpod_ray.core.reference; core.load('local'); "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    imported = {name for name in json.loads(done.stdout.splitlines()[-1].replace("'", '"')) if not name.startswith("_")}
    pydantic = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
    assert imported - {"cython_runtime"} == {"hyperpod_ray", "hyperpod_ray_rules", "yaml", *pydantic}


# --- the generated reference -----------------------------------------------------------------------------------------


def test_every_setting_is_described() -> None:
    """The page and the editors' schema are only as good as the model's docstrings."""
    document = Environment.model_json_schema()
    page = settings_page.settings_page()
    for name, section in [("Environment", document), *document["$defs"].items()]:
        assert section.get("description"), name
        for key, info in section["properties"].items():
            assert info.get("description"), f"{name}.{key}"
            assert f"`{key}`" in page


def test_the_pages_tables_are_tables() -> None:
    rows = [line for line in settings_page.settings_page().splitlines() if line.startswith("|")]
    assert rows
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}
