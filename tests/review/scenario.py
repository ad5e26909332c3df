"""Scenarios as data: a shipped environment, what the base and the head change in it, and what the review must say."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "scenarios"
PROJECT = Path(__file__).parents[2]
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]+)\]")


@dataclass(kw_only=True)
class Side:
    """What one side of a scenario changes."""

    set: dict[str, Any] = field(default_factory=dict)
    """Settings path → value, in the environment file; `__remove__` takes it out."""
    comment: str = ""
    """Line added at the end of the environment file as it is."""
    files: dict[str, str] = field(default_factory=dict)
    """File of the project (`lifecycle/…`, `hyperpod_ray/image/…`) → text appended to it."""
    resources: list[dict[str, Any]] = field(default_factory=list)
    """Edits of synthesized resources, for what no setting can say: `type`, optional `title`, `set` or `remove`."""
    stacks: dict[str, Any] = field(default_factory=dict)
    """What no template has, of every stack: `account`, `region`, `protected`."""
    objects: list[dict[str, Any]] = field(default_factory=list)
    """Edits of Kubernetes objects inside the templates: `kind`, optional `name`, `set` or `remove`."""


Assemble = Callable[[str, Side], Path]
"""Synthesizes an environment with the changes of one side."""


@dataclass(kw_only=True)
class Scenario:
    """One change and what the review must say about it."""

    name: str
    theme: str
    environment: str
    base: Side
    head: Side
    verdict: str
    rows: list[dict[str, str]] = field(default_factory=list)
    """Each must match one row: every key is found in that row's text, `effect` and `code` are equal."""
    absent: list[str] = field(default_factory=list)
    """Codes that no row may have."""
    remarks: list[dict[str, str]] = field(default_factory=list)
    destroys: str = ""
    """`nodes` or `data` when the change destroys them: such a scenario must never come out as safe."""
    why: str = ""

    @property
    def id(self) -> str:
        """As pytest shows it."""
        return f"{self.theme}: {self.name}"


def scenarios() -> list[Scenario]:
    """All of them."""
    return list(_read())


def _read() -> Iterator[Scenario]:
    """Scenarios in the order of the files; one that reverses another has its assemblies, so that it costs no synth."""
    made: dict[str, Scenario] = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        for item in yaml.safe_load(file.read_text(encoding="utf-8")):
            if "reverse" in item:
                forward = made[f"{file.stem}: {item.pop('reverse')}"]
                common: dict[str, Any] = {
                    "environment": forward.environment,
                    "base": forward.head,
                    "head": forward.base,
                }
            else:
                base, head = (Side(**(item.pop(side, None) or {})) for side in ("base", "head"))
                common = {"environment": item.pop("environment", "prod"), "base": base, "head": head}
            scenario = Scenario(theme=file.stem, **common, **item)
            made[scenario.id] = scenario
            yield scenario


# --- settings --------------------------------------------------------------------------------------------------------


def settings_text(environment: str, side: Side) -> str:
    """The shipped environment file with a side's changes, as YAML."""
    text = (PROJECT / "environments" / f"{environment}.yaml").read_text(encoding="utf-8")
    if not side.set:
        return text + side.comment
    data = yaml.safe_load(text)
    for path, value in side.set.items():
        put(data, path, value)
    return str(yaml.dump(data, Dumper=DUMPER, sort_keys=False)) + side.comment


def put(data: Any, path: str, value: Any) -> None:
    """Set a value by a path as `hyperpod.instance_groups[workers].count`; `[+]` appends, list items go by name."""
    steps = [match.group(1) or f"[{match.group(2)}]" for match in _STEP.finditer(path)]
    for step in steps[:-1]:
        data = _step(data, step)
    last = steps[-1]
    if last == "[+]":
        data.append(value)
    elif isinstance(data, list):
        index = _index(data, last[1:-1])
        if value == "__remove__":
            del data[index]
        else:
            data[index] = value
    elif value == "__remove__":
        del data[last]
    else:
        data[last] = value


def _step(data: Any, step: str) -> Any:
    if isinstance(data, list):
        return data[_index(data, step.strip("[]"))]
    return data.setdefault(step.strip("[]") if step.startswith("[") else step, {})


def _index(items: list[Any], name: str) -> int:
    if name.lstrip("-").isdigit():
        return int(name)
    for index, item in enumerate(items):
        if isinstance(item, dict) and name in {
            item.get("name"),
            item.get("groupName"),
            item.get("InstanceGroupName"),
            item.get("Key"),
        }:
            return index
    raise KeyError(name)


# --- templates -------------------------------------------------------------------------------------------------------


def patched(assembly: Path, environment: str, side: Side, target: Path) -> Path:
    """A copy of an assembly with a side's edits of resources and objects; the assembly itself when there are none."""
    if not side.resources and not side.objects and not side.stacks:
        return assembly
    shutil.copytree(assembly, target, symlinks=True)
    done = [0] * (len(side.resources) + len(side.objects))
    for file in sorted((target / f"assembly-{environment}").glob("*.template.json")):
        template = json.loads(file.read_text(encoding="utf-8"))
        before = copy.deepcopy(template)
        for index, edit in enumerate(side.resources):
            done[index] += _edit_resources(template, edit)
        for index, edit in enumerate(side.objects, start=len(side.resources)):
            done[index] += _edit_objects(template, edit)
        if template != before:
            file.write_text(json.dumps(template), encoding="utf-8")
    if side.stacks:
        _edit_stacks(target / f"assembly-{environment}" / "manifest.json", side.stacks)
    assert all(done), f"an edit found nothing to change: {[*side.resources, *side.objects]}"
    return target


def _edit_stacks(manifest: Path, edit: dict[str, Any]) -> None:
    data = json.loads(manifest.read_text(encoding="utf-8"))
    for artifact in data["artifacts"].values():
        if artifact.get("type") != "aws:cloudformation:stack":
            continue
        account, _, region = artifact["environment"].removeprefix("aws://").partition("/")
        artifact["environment"] = f"aws://{edit.get('account', account)}/{edit.get('region', region)}"
        if "protected" in edit:
            artifact["properties"]["terminationProtection"] = edit["protected"]
    manifest.write_text(json.dumps(data), encoding="utf-8")


def _edit_resources(template: dict[str, Any], edit: dict[str, Any]) -> int:
    count = 0
    for logical_id, resource in list(template.get("Resources", {}).items()):
        if resource["Type"] != edit["type"] or edit.get("id", "") not in logical_id:
            continue
        count += 1
        if edit.get("remove"):
            del template["Resources"][logical_id]
        if "rename" in edit:
            template["Resources"][edit["rename"]] = template["Resources"].pop(logical_id)
        for path, value in (edit.get("set") or {}).items():
            put(resource, path, value)
    return count


def _edit_objects(template: dict[str, Any], edit: dict[str, Any]) -> int:
    count = 0
    for resource in template.get("Resources", {}).values():
        if resource["Type"] != "Custom::AWSCDK-EKS-KubernetesResource":
            continue
        text, tokens = _flat(resource["Properties"]["Manifest"])
        objects = json.loads(text)
        hit = [
            one for one in objects if one["kind"] == edit["kind"] and edit.get("name", "") in one["metadata"]["name"]
        ]
        if not hit:
            continue
        count += len(hit)
        for one in hit:
            for path, value in (edit.get("set") or {}).items():
                put(one, path, value)
        if edit.get("remove"):
            objects = [one for one in objects if one not in hit]
        resource["Properties"]["Manifest"] = _joined(json.dumps(objects, separators=(",", ":")), tokens)
    return count


def _flat(manifest: Any) -> tuple[str, list[Any]]:
    """The manifest with marks for its intrinsics, and those."""
    if isinstance(manifest, str):
        return manifest, []
    tokens: list[Any] = []
    text = ""
    for part in manifest["Fn::Join"][1]:
        if isinstance(part, str):
            text += part
        else:
            text += f"<<{len(tokens)}>>"
            tokens.append(part)
    return text, tokens


def _joined(text: str, tokens: list[Any]) -> Any:
    if not tokens:
        return text
    parts: list[Any] = []
    for index, piece in enumerate(re.split(r"<<(\d+)>>", text)):
        parts.append(tokens[int(piece)] if index % 2 else piece)
    return {"Fn::Join": ["", parts]}
