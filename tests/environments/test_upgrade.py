"""Files of every released version: loaded, upgraded, and what cannot be upgraded is named with its line."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.cli.main import main
from hyperpod_ray.core import plan_names, upgrade
from hyperpod_ray.core.loader import EnvironmentFileError, parse_any
from hyperpod_ray.core.version import __version__
from tests.environments.upgrade_helpers import OLD, RELEASED, comments, label, upgraded

FILES = sorted(RELEASED.glob("*/**/*.yaml"))
ROOT = RELEASED.parents[2]
BY_HAND = {
    "0.1.0/prod.yaml": "registries.mirror: true",
    "0.1.0/variants/everything.yaml": "hyperpod.managed_autoscaling",
}
"""Released files that need an answer of a person, and what the message names."""


def version_of(path: Path) -> str:
    return path.relative_to(RELEASED).parts[0]


def test_each_release_has_files_here_and_a_section_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d{2}-\d{2}$", changelog, re.MULTILINE)
    assert tuple(reversed(sections)) == tuple(upgrade.RELEASES[-len(sections) :])
    assert __version__ == upgrade.RELEASES[-1]
    assert {path.name for path in RELEASED.iterdir()} == set(upgrade.RELEASES[:-1])


@pytest.mark.parametrize("path", FILES, ids=label)
def test_a_released_file_is_upgraded(path: Path) -> None:
    before = path.read_text(encoding="utf-8")
    result = upgrade.upgraded(before, since=version_of(path), file=str(path))
    assert result.destroy_first == (version_of(path) == "0.1.0")
    assert comments(result.text) == comments(before), "a comment is lost"
    assert yaml.safe_load(result.text)["written_for"] == __version__
    again = upgrade.upgraded(result.text, since=__version__, file=str(path))
    assert (again.text, again.changes) == (result.text, ())
    try:
        parse_any(result.text, name=path.stem, path=path)
    except EnvironmentFileError as error:
        (problem,) = error.problems
        assert BY_HAND[label(path)] in str(problem)
        assert problem.line > 1
    else:
        assert label(path) not in BY_HAND


@pytest.mark.parametrize("path", [path for path in FILES if version_of(path) == "0.2.0"], ids=label)
def test_names_of_what_0_2_0_deployed_stay(path: Path) -> None:
    before = yaml.safe_load(path.read_text(encoding="utf-8"))
    plan = parse_any(upgraded(path.read_text(encoding="utf-8")), name=path.stem, path=path).plan
    image = before.get("image") or {}
    assert plan.image_repository == ("" if "uri" in image else image.get("repository_name", "ray-training"))
    assert not plan.fixed_log_groups


def defaults(schema: dict[str, Any], root: dict[str, Any], path: str = "", depth: int = 0) -> dict[str, set[str]]:
    """Defaults of all settings of a schema, by their paths."""
    flat: dict[str, set[str]] = {}
    if depth > 24:
        return flat
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return defaults(target, root, path, depth + 1)
    parts = [(path, part) for word in ("anyOf", "oneOf", "allOf") for part in schema.get(word, [])]
    parts += [(f"{path}[]", schema["items"])] if "items" in schema else []
    for name, setting in schema.get("properties", {}).items():
        if "default" in setting and not isinstance(setting["default"], dict):
            flat.setdefault(f"{path}.{name}", set()).add(json.dumps(setting["default"]))
        parts.append((f"{path}.{name}", setting))
    for place, part in parts:
        for key, values in defaults(part, root, place, depth + 1).items():
            flat.setdefault(key, set()).update(values)
    return flat


def test_every_default_that_changed_since_0_2_0_is_written_out() -> None:
    """A file without a setting means what it meant: a changed default needs a step of the upgrade."""
    before = json.loads((RELEASED / "0.2.0" / "schema.json").read_text())
    now = json.loads((ROOT / "environments" / "schema.json").read_text())
    old, new = defaults(before, before), defaults(now["$defs"]["Environment"], now)
    assert len(old) > 50
    changed = {path for path, values in old.items() if values != new.get(path)}
    assert changed == {".image.repository_name"}


def test_a_newer_file_is_refused_by_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lab.yaml").write_text(f"written_for: 9.1.0\nfuture: true\n{OLD}")
    assert main(["--environments", str(tmp_path), "env", "show", "lab"]) == 2
    error = capsys.readouterr().err
    assert f"written_for: 9.1.0, and this is hyperpod-ray {__version__}" in error
    assert "Fix: install hyperpod-ray 9.1.0 or newer" in error


def test_line_ends_marks_and_flow_style_stay() -> None:
    windows = OLD.replace("\n", "\r\n")
    assert upgraded(windows) == upgraded(OLD).replace("\n", "\r\n")
    flow = json.dumps(yaml.safe_load(OLD))
    assert yaml.safe_load(upgraded(flow)) == yaml.safe_load(upgraded(OLD))


@pytest.mark.parametrize("image", ["image:\n", "image: null\n", "image: ~\n", "image: {}\n", "image:   # built\n"])
def test_an_empty_section_takes_the_setting(image: str) -> None:
    assert yaml.safe_load(upgraded(OLD + image))["image"] == {"repository_name": "ray-training"}


def test_names_that_the_file_sets_stay() -> None:
    text = OLD + "image: {repository_name: ours}\nlog_group_names: fixed\n"
    data = yaml.safe_load(upgraded(text))
    assert (data["image"], data["log_group_names"]) == ({"repository_name": "ours"}, "fixed")


def test_dates_and_keys_that_are_no_text_get_quotes() -> None:
    text = OLD + "tags:\n  since: 2026-01-31   # day one\n  on: call\n"
    data = yaml.safe_load(upgraded(text))
    assert data["tags"] == {"since": "2026-01-31", "on": "call"}
    assert "# day one" in upgraded(text)


def test_what_stood_beside_what_exists_goes() -> None:
    """Version 0.1.0 took settings of a new resource beside `existing`, and ignored them."""
    before = yaml.safe_load((RELEASED / "0.1.0" / "variants" / "existing.yaml").read_text())
    before["storage"] |= {"capacity_gib": 2400, "on_destroy": "delete"}
    before["network"] |= {"cidr": "10.1.0.0/16", "nat_gateways": 2}
    before["eks"] |= {"version": "1.34", "endpoint": {"public": False, "public_cidrs": []}, "ray_users": []}
    before["image"] |= {"folder": "image", "keep_images": 3}
    text = yaml.safe_dump(before, sort_keys=False)
    after = yaml.safe_load(upgraded(text, "0.1.0"))
    expected = copy.deepcopy(before)
    for section, keys in {
        "storage": ("mode", "capacity_gib", "on_destroy"),
        "network": ("cidr", "nat_gateways"),
        "eks": ("endpoint",),
        "image": ("folder", "keep_images"),
    }.items():
        for key in keys:
            del expected[section][key]
    assert after == {"written_for": __version__, **expected}
    assert parse_any(upgraded(text, "0.1.0"), name="existing", path=Path("existing.yaml")).name == "existing"


def test_null_for_what_does_not_exist_goes() -> None:
    text = OLD + "storage: {existing: null, capacity_gib: 1200}\nimage:\n  uri: null\neks:\n  existing:\n"
    after = yaml.safe_load(upgraded(text, "0.1.0"))
    assert after["storage"] == {"capacity_gib": 1200}
    assert not {"image", "eks"} & set(after)


def test_a_text_that_would_not_say_what_is_meant_is_refused() -> None:
    """What is added after the end of the document would be another one."""
    with pytest.raises(EnvironmentFileError, match="cannot be changed as text"):
        upgraded(OLD + "...\n")


def test_groups_that_cloudformation_names_are_not_looked_for_by_name() -> None:
    path = Path("lab.yaml")
    generated = parse_any(OLD + "log_group_names: generated\n", name="lab", path=path).plan
    fixed = parse_any(OLD, name="lab", path=path).plan
    assert [group.section for group in plan_names.log_groups(fixed)] == ["network", "eks", "hyperpod"]
    assert [group.section for group in plan_names.log_groups(generated)] == ["eks"]


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("- {name: a, type: log_pattern, log_pattern: step, REST}", "- {name: a, log_pattern: step, REST}"),
        ("- name: a\n  type: log_pattern\n  BLOCK", "- name: a\n  BLOCK"),
        ("- type: log_pattern\n  name: a\n  BLOCK", "- name: a\n  BLOCK"),
    ],
    ids=["flow", "block", "first"],
)
def test_the_type_of_a_hang_rule_goes(rule: str, left: str) -> None:
    flow, block = "enabled: true, timeout_minutes: 5", "log_pattern: step\n  enabled: true\n  timeout_minutes: 5"

    def file(rule: str) -> str:
        lines = rule.replace("REST", flow).replace("BLOCK", block).replace("\n", "\n      ")
        return OLD.replace("  workers: [", f"  hung_job_detection:\n    rules:\n      {lines}\n  workers: [")

    assert upgraded(file(rule)) == upgraded(file(left))
    parse_any(upgraded(file(rule)), name="lab", path=Path("lab.yaml"))
