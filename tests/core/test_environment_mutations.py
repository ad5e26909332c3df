"""Thousands of broken environment files: never an exception but `EnvironmentFileError`, every problem located.

`ENVIRONMENT_MUTATIONS=20000` asks for more files; the default is what a test run can wait for. The files are the same
in every run (derandomized), so that a failure here is a failure everywhere.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from hyperpod_ray.core.loader import (
    FOLDER,
    EnvironmentFile,
    EnvironmentFileError,
    Problem,
    environment_names,
    load,
    parse,
)
from hyperpod_ray.core.model import Environment, Settings

FILES = int(os.environ.get("ENVIRONMENT_MUTATIONS", "1000"))
"""Files to judge, over all the tests here."""
TEXTS = {name: (FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in environment_names()}
DATA = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def share(part: float) -> Callable[[Any], Any]:
    """Settings of a test that judges `part` of the files."""
    return settings(
        max_examples=max(10, int(FILES * part)),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def judge(text: str) -> EnvironmentFile | None:
    """Judge a file and hold what is said of it against the promise; None when it is bad."""
    try:
        found = parse(text, name="broken", path=Path("environments/broken.yaml"))
    except EnvironmentFileError as error:
        assert error.problems
        assert str(error)
        for problem in [*error.problems, *error.warnings]:
            is_located(problem, text)
        assert all(problem.severity == "error" for problem in error.problems)
        return None
    for problem in found.warnings:
        is_located(problem, text)
        assert problem.severity == "warning"
    every_figure(found)
    return found


def is_located(problem: Problem, text: str) -> None:
    lines = max(1, len(text.splitlines()), text.count("\n") + 1)
    assert problem.file == "environments/broken.yaml"
    assert 1 <= problem.line <= lines
    assert problem.path
    assert problem.message.strip()
    assert problem.message.isprintable(), repr(problem.message)
    assert problem.path.isprintable(), repr(problem.path)
    assert len(problem.message) < 1000
    assert not problem.message.endswith(".")
    str(problem).encode("utf-8")


def every_figure(found: EnvironmentFile) -> None:
    """A good file has all the figures that stacks and manifests ask for."""
    plan = found.plan
    assert plan.node_zones
    assert plan.storage_zone
    assert plan.node_subnet_prefix
    assert plan.head_resources.cpu >= 1
    for group in found.settings.hyperpod.instance_groups:
        plan.deep_health_checks(group)
        assert plan.allocatable(group).cpu >= 0
    for worker in found.settings.ray.workers:
        assert plan.worker_resources(worker).memory_gib >= 1


# --- what goes wrong with files --------------------------------------------------------------------------------------

SECTIONS: list[type[BaseModel]] = [Environment, *Settings.__subclasses__()]
NAMES = [name for section in SECTIONS for name in section.model_fields]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 1, 2, 3, 10, 99, 101, 1199, 1201, 2**31, 2**63, 10**17, -(10**17)]),
    st.floats(),
    st.text(max_size=20),
    st.text(alphabet="abcxyz019.-_/:*?@#[]{}&!|>'\"%`, \t\n\\éü中\U0001f4a5\u202e\x85", max_size=12),
    st.sampled_from(
        [
            "",
            "ml.p5.48xlarge",
            "p5.48xlarge",
            "ml.x.y",
            "10.0.0.0/99",
            "300.1.1.1/16",
            "0.0.0.0/0",
            "10.0.0.0/16",
            "usw2-az1",
            "usw2-az9",
            "us-west-2a",
            "Continuous",
            "InstanceStress",
            "GpuBurn",
            "cron()",
            "cron(* * * * * *)",
            "arn:aws:iam::1:role/x",
            "-",
            "head",
            "workers",
            "HEAD",
            "yes",
            "0o17",
            "12:30",
            "2026-11-21",
            "<<",
            "=",
            "~",
            ".inf",
            "2.60.0",
            "1.34",
            "1.99",
            "��",
            "\x7f",
            "\ufeff",
            "\u2028",
            "default",
            "driver",
            "aws:x",
            " ",
            "1_000",
            "a" * 64,
            "a" * 5000,
            "9" * 30 + ".1.1",
        ]
    ),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.text(max_size=8) | st.sampled_from(["name", "type", "count", "mode"]), SCALARS, max_size=3),
    st.lists(st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2), max_size=2),
)


MISTAKES = ["delete", "replace", "replace", "replace", "duplicate", "rename", "add", "swap", "nest"]


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, child in children:
        found += places(child, (*path, key))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> str:  # noqa: PLR0912  # one case per kind of mistake
    """A shipped file with one to three things wrong in its structure."""
    data = copy.deepcopy(DATA[draw(st.sampled_from(sorted(DATA)))])
    for _ in range(draw(st.integers(1, 3))):
        where = places(data)
        if not where:
            break
        *way, last = draw(st.sampled_from(where))
        parent = data
        for key in way:
            parent = parent[key]
        match draw(st.sampled_from(MISTAKES)):
            case "delete":
                del parent[last]
            case "replace":
                parent[last] = draw(VALUES)
            case "duplicate" if isinstance(parent, list):
                parent.insert(0, copy.deepcopy(parent[last]))
            case "rename" if isinstance(parent, dict):
                near = st.sampled_from([str(last)[:-1], f"{last}s", str(last).upper()])
                name = draw(near | st.sampled_from(NAMES) | st.text(max_size=10))
                parent[name] = parent.pop(last)
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(NAMES))] = draw(VALUES)
            case "swap":
                *other_way, other = draw(st.sampled_from(where))
                try:
                    there = data
                    for key in other_way:
                        there = there[key]
                    parent[last], there[other] = copy.deepcopy(there[other]), copy.deepcopy(parent[last])
                except (KeyError, IndexError, TypeError):
                    pass
            case _:
                parent[last] = {str(last): parent[last]}
    try:
        if draw(st.booleans()):  # JSON is YAML, too
            return json.dumps(data, indent=1)
        text = yaml.dump(data, Dumper=DUMPER, sort_keys=False, allow_unicode=draw(st.booleans()))
        return str(text).encode("utf-8").decode()
    except (UnicodeEncodeError, yaml.YAMLError):
        return repr(data).encode("utf-8", "replace").decode()


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A shipped file with its text damaged: cut, with garbage in it, lines moved, doubled or indented differently."""
    text = TEXTS[draw(st.sampled_from(sorted(TEXTS)))]
    for _ in range(draw(st.integers(1, 3))):
        lines = text.split("\n")
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        cut = draw(st.integers(0, len(text)))
        match draw(st.sampled_from(["cut", "garbage", "double", "move", "indent", "drop", "tab", "character"])):
            case "cut":
                text = text[:cut]
            case "garbage":
                garbage = draw(st.text(alphabet=st.characters(codec="utf-8"), max_size=20))
                text = text[:cut] + garbage + text[cut:]
            case "double":
                text = "\n".join([*lines[:at], *lines[at : at + 3], *lines[at:]])
            case "move":
                text = "\n".join([*lines[at:], *lines[:at]])
            case "indent":
                more = draw(st.sampled_from([" ", "  ", "      ", "- "]))
                text = "\n".join([*lines[:at], more + lines[at], *lines[at + 1 :]])
            case "drop":
                text = "\n".join([*lines[:at], *lines[at + 1 :]])
            case "tab":
                text = "\n".join([*lines[:at], "\t" + lines[at].lstrip(), *lines[at + 1 :]])
            case _:
                special = draw(st.sampled_from(list(":-[]{}&*!|>'\"%@`#,?~<\x00\x01\x85\u2028\ufeff\r")))
                text = text[:cut] + special + text[cut + 1 :]
    return text


@share(0.5)
@given(mutated())
def test_no_mutation_of_the_structure_is_a_traceback(text: str) -> None:
    judge(text)


@share(0.3)
@given(mangled())
def test_no_mutation_of_the_text_is_a_traceback(text: str) -> None:
    judge(text)


@share(0.1)
@given(VALUES.map(lambda value: yaml.safe_dump(value, allow_unicode=True)))
def test_no_yaml_is_a_traceback(text: str) -> None:
    assert judge(text.encode("utf-8", "replace").decode()) is None


@share(0.1)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
@example("%YAML 9.9\n---\n")
@example("? ? ?")
@example("a: |\n  b\n c")
@example("\u2028a: b")
@example("- - - - -")
@example("!!binary x")
@example("--- >\n a\n...\n%TAG ! x\n---")
def test_no_text_is_a_traceback(text: str) -> None:
    assert judge(text) is None


@share(0.05)
@given(st.sampled_from(sorted(DATA)), st.randoms(use_true_random=False))
def test_good_files_stay_good_in_another_order_and_style(name: str, random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            random.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(child) for child in value] if isinstance(value, list) else value

    text = yaml.safe_dump(shuffled(DATA[name]), sort_keys=False, default_flow_style=random.choice([None, True, False]))
    found = judge(text)
    assert found is not None
    assert found.settings == load(name).settings


@share(0.02)
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_good_files_stay_good_with_comments_and_blank_lines(name: str, data: st.DataObject) -> None:
    lines = TEXTS[name].split("\n")
    for _ in range(3):
        at = data.draw(st.integers(0, len(lines)))
        lines.insert(at, data.draw(st.sampled_from(["", "# note", "      # note: with a colon", "   "])))
    found = judge(data.draw(st.sampled_from(["\n", "\r\n"])).join(lines))
    assert found is not None
    assert found.settings == load(name).settings


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_line_can_be_the_last(name: str) -> None:
    lines = TEXTS[name].split("\n")
    for end in range(len(lines)):
        judge("\n".join(lines[:end]))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_setting_can_be_missing_or_null(name: str) -> None:
    for *way, last in places(DATA[name]):
        for value in (None, "delete"):
            data = copy.deepcopy(DATA[name])
            parent = data
            for key in way:
                parent = parent[key]
            if value is None:
                parent[last] = None
            else:
                del parent[last]
            judge(yaml.dump(data, Dumper=DUMPER, sort_keys=False))
