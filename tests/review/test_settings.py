"""Every setting of an environment file, changed there and back: no setting is without a verdict from outside.

`settings.yaml` says what each verdict must be and what decides it. A setting that the model gains is missing there
until somebody has decided. CI judges each verdict of each section once, `make test-slow` all cases.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.review import review
from tests.review.scenario import put
from tests.support.assemblies import PROJECT, synthesized

TABLE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "settings.yaml").read_text(encoding="utf-8"))
VARIANTS = PROJECT / "tests" / "stacks" / "variants"
LISTED = {
    "hyperpod.instance_groups[]": "hyperpod.instance_groups[workers]",
    "ray.workers[]": "ray.workers[gpu]",
    "teams[]": "teams[vision]",
}
"""Which element of a list a case changes, where it does not say."""
Case = dict[str, Any]
VERDICTS = {effect.code for effect in Effect} | {"no-change"}


def settings_of_the_schema() -> set[str]:
    """Paths of every setting of `environments/schema.json`; `[]` is an element of a list."""
    schema = json.loads((PROJECT / "environments" / "schema.json").read_text(encoding="utf-8"))
    definitions, paths = schema["$defs"], set()

    def walk(node: dict[str, Any], path: str, above: frozenset[str]) -> None:
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            if name not in above:
                walk(definitions[name], path, above | {name})
            return
        for part in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            walk(part, path, above)
        for key, part in node.get("properties", {}).items():
            below = f"{path}.{key}".lstrip(".")
            paths.add(below)
            walk(part, below, above)
        if isinstance(node.get("items"), dict):
            walk(node["items"], f"{path}[]", above)

    walk(schema["then"], "", frozenset())
    walk(schema["else"], "", frozenset())
    return paths


def test_every_setting_has_a_verdict() -> None:
    settings, decided, unseen = settings_of_the_schema(), set(TABLE["cases"]), set(TABLE["unseen"])
    below = {setting for setting in settings if any(setting.startswith(f"{name}.") for name in ("training", "helm"))}
    assert settings - decided - unseen - below == set(), "add a case to tests/review/settings.yaml"
    assert decided - settings == set(), "the schema has no such setting"
    assert unseen - settings == set(), "the schema has no such setting"
    assert decided & unseen == set()


def test_every_case_says_both_directions() -> None:
    for setting, listed in TABLE["cases"].items():
        for case in listed:
            assert {case["forth"], case["back"]} <= VERDICTS, setting
            assert {"from", "to"} <= case.keys() or {"base", "head"} <= case.keys(), setting


def environment(name: str) -> dict[str, Any]:
    """A shipped environment, an example or a variant."""
    folder, _, stem = name.rpartition("/")
    file = VARIANTS / f"{stem}.yaml" if folder == "variants" else PROJECT / "environments" / f"{name}.yaml"
    data: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return data


def apply(data: dict[str, Any], changes: dict[str, Any]) -> None:
    """Change settings; `absent` removes one, also where it is not there."""
    for path, value in changes.items():
        try:
            put(data, path, "__remove__" if value == "absent" else copy.deepcopy(value))
        except KeyError:
            if value != "absent":
                raise


def assemblies(setting: str, case: Case) -> Iterator[Path]:
    """The assembly of each side."""
    name = case.get("in", "prod")
    context = case.get("with", {})
    place = case.get("at", setting)
    for path, element in LISTED.items():
        place = place.replace(path, element)
    for side, key in (("base", "from"), ("head", "to")):
        data = environment(name)
        apply(data, TABLE["contexts"][context] if isinstance(context, str) else context)
        apply(data, case[side] if side in case else {place: case[key]})
        stem = name.rpartition("/")[2]
        yield synthesized(
            stem,
            yaml.safe_dump(data, sort_keys=False),
            path=Path(f"environments/{stem}.yaml"),
            validation=False,
        )


def cases() -> Iterator[Any]:
    """Every case; `make test-deploys` leaves the rest: a section's later cases with verdicts that it has shown."""
    shown = set[tuple[str, str, str]]()
    for setting, listed in TABLE["cases"].items():
        for number, case in enumerate(listed):
            verdicts = (setting.partition(".")[0].removesuffix("[]"), case["forth"], case["back"])
            marks = [pytest.mark.slow, *([pytest.mark.rest] if verdicts in shown else [])]
            shown.add(verdicts)
            yield pytest.param(setting, case, id=f"{setting} {number}", marks=marks)


CASES = list(cases())


def test_ci_judges_each_verdict_of_each_section() -> None:
    def verdicts(params: list[Any]) -> set[tuple[str, str, str]]:
        return {
            (param.values[0].partition(".")[0], param.values[1]["forth"], param.values[1]["back"]) for param in params
        }

    judged = [param for param in CASES if "rest" not in {mark.name for mark in param.marks}]
    assert {section.removesuffix("[]") for section, _, _ in verdicts(judged)} == {
        section.removesuffix("[]") for section, _, _ in verdicts(CASES)
    }
    assert {pair[1:] for pair in verdicts(judged)} == {pair[1:] for pair in verdicts(CASES)}
    assert len(judged) < 0.4 * len(CASES), "a case costs two seconds of CI"


@pytest.mark.parametrize(("setting", "case"), CASES)
def test_a_setting_changed_there_and_back(setting: str, case: Case) -> None:
    base, head = assemblies(setting, case)
    for direction, sides in (("forth", (base, head)), ("back", (head, base))):
        result = review(*sides, only=case.get("in", "prod").rpartition("/")[2])
        rows = [f"{row.effect.code} {row.code}: {row.change}" for row in result.environments[0].rows]
        rows += [f"{remark.direction}: {remark.detail}" for remark in result.environments[0].remarks]
        verdict = "no-change" if result.empty else result.effect.code
        assert verdict == case[direction], f"{direction}: {case.get('why', '')}\n" + "\n".join(rows)
