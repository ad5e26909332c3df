"""What an environment becomes, as lines of text that a person can review: every property of every resource.

A record is a mapping of an object (`Network/Vpc AWS::EC2::VPC`) to its properties (`CidrBlock` to `"10.0.0.0/16"`).
A file holds one record, or what differs in it from another one, so that a change of all environments is one change of
one file. Digests, generated ids and shipped files are no part of it: an edit elsewhere leaves it as it is.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
COMMAND = "make records"
Record = dict[str, dict[str, str]]
"""Object to property to value as JSON."""
NAMES = (
    "name",
    "Name",
    "Key",
    "key",
    "Sid",
    "sid",
    "Id",
    "InstanceGroupName",
    "groupName",
    "OutputKey",
    "AddonName",
    "path",
)
"""What names an element of a list, where each has it and no two have the same."""
SHIPPED = ("hyperpod_ray", "hyperpod_ray_rules", "hyperpod_ray_training", "lifecycle", "jobs", "constructs")
GENERATED = (
    (re.compile(r"(?<!@sha256:)(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])"), "<hash>"),
    (re.compile(r"(?<![0-9a-zA-Z-])[0-9a-f]{16}(?![0-9a-f])"), "<content>"),
    (re.compile(r"(?<=volume-owner-)[0-9a-f]{8}"), "<hash>"),
    (re.compile(r"(?<=eks/prune-)[0-9a-f]{42}"), "<hash>"),
    (re.compile(r"(?<=cr-owned:)[0-9a-z<>:]+"), "<hash>"),
)
"""What changes with every edit of a file that is uploaded. A pinned image (`@sha256:…`) is none of it."""
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
LONGEST = 40
"""Lines of differences that a message shows."""


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each property of a value with its path. A list of named objects is addressed by their names."""
    if isinstance(value, str):
        value = _parsed(value)
        if isinstance(value, dict | list):
            path += "|"  # JSON inside of a string
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from flat(value[key], f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list) and any(isinstance(element, dict | list) for element in value):
        if all(isinstance(element, dict) and element.keys() == {"Key", "Value"} for element in value):
            yield from flat({element["Key"]: element["Value"] for element in value}, path)
            return
        names = _names(value)
        if names is not None:
            yield f"{path}[]", text_of(names)
        for number, element in enumerate(value):
            yield from flat(element, f"{path}[{names[number] if names else number}]")
    else:
        yield path, text_of(value)


def _names(elements: list[Any]) -> list[str] | None:
    if not all(isinstance(element, dict) for element in elements):
        return None
    for labels in (
        [f"{element.get('kind')}/{(element.get('metadata') or {}).get('name')}" for element in elements]
        if all("kind" in element and "metadata" in element for element in elements)
        else [],
        *([element.get(key) for element in elements] for key in NAMES),
    ):
        if labels and all(isinstance(label, str) for label in labels) and len(set(labels)) == len(labels):
            return [str(label) for label in labels]
    return None


def _parsed(text: str) -> Any:
    """JSON inside of a string; a shipped file by its name."""
    if text[:1] in ("{", "["):
        try:
            parsed = json.loads(text)
        except ValueError:
            return text
        return parsed if isinstance(parsed, dict | list) else text
    return f"<text of {_files()[text.strip()]}>" if text.strip() in _files() else text


@functools.cache
def _files() -> dict[str, str]:
    """Every text file that may be uploaded, to its path."""
    return {
        file.read_text(encoding="utf-8").strip(): file.relative_to(PROJECT).as_posix()
        for folder in SHIPPED
        for file in sorted((PROJECT / folder).rglob("*"))
        if file.suffix in (".py", ".sh", ".txt", ".yaml") and file.is_file() and file.stat().st_size > 200
    }


def text_of(value: Any) -> str:
    """A value as a record has it."""
    return json.dumps(value, ensure_ascii=False, sort_keys=isinstance(value, dict))


def _stable(text: str) -> str:
    for pattern, word in GENERATED:
        text = pattern.sub(word, text)
    return text


def _properties(value: Any) -> dict[str, str]:
    return {_stable(path): _stable(text) for path, text in flat(value)}


def written(record: Record, *, title: str, base: Record | None = None) -> str:
    """A record as the text of a file; of what `base` has as well, only what differs."""
    lines = [f"# {title} `{COMMAND}` writes it."]
    for name in sorted({*record, *(base or {})}):
        before = (base or {}).get(name, {})
        if name not in record:
            lines.append(f"- {name}")
            continue
        own = [f"  {path} = {text}" for path, text in sorted(record[name].items()) if before.get(path) != text]
        gone = [f"  - {path}" for path in sorted(before.keys() - record[name].keys())]
        if own or gone or (base or {}).get(name) is None:
            lines += [name, *gone, *own]
    return "\n".join(lines) + "\n"


def read(text: str, *, base: Record | None = None) -> Record:
    """The record of a file's text."""
    record = {name: dict(properties) for name, properties in (base or {}).items()}
    name = ""
    for line in text.splitlines():
        if line.startswith("- "):
            del record[line.removeprefix("- ")]
        elif line.startswith("  - "):
            del record[name][line.removeprefix("  - ")]
        elif line.startswith("  "):
            path, _, value = line.removeprefix("  ").partition(" = ")
            record[name][path] = value
        elif line and not line.startswith("#"):
            name = line
            record.setdefault(name, {})
    return record


def differences(recorded: Record, today: Record) -> list[str]:
    """What changed, a line each: the object, the property, what it was and what it is."""
    lines = []
    for name in sorted({*recorded, *today}):
        before, after = recorded.get(name), today.get(name)
        if before is None:
            lines.append(f"{name}: new")
        elif after is None:
            lines.append(f"{name}: no longer there")
        else:
            for path in sorted({*before, *after}):
                if before.get(path) != after.get(path):
                    lines.append(f"{name}: {path}: {_change(before.get(path), after.get(path))}")
    return lines


def _change(before: str | None, after: str | None) -> str:
    if before is None:
        return f"new, {after}"
    if after is None:
        return f"no longer there, was {before}"
    if before.startswith("[") and after.startswith("["):
        old, new = json.loads(before), json.loads(after)
        gone, added = [each for each in old if each not in new], [each for each in new if each not in old]
        if gone or added:
            return f"without {text_of(gone)}, with {text_of(added)}"
    return f"{before} → {after}"


def difference(file: Path, today: Record, *, base: Record | None = None) -> str:
    """The empty text where the file records this; else what changed and what to do, for a failing test."""
    shown = file.relative_to(PROJECT) if file.is_relative_to(PROJECT) else file
    if not file.is_file():
        return f"{shown}: missing. Expected the record of an environment. Fix: {COMMAND}"
    lines = differences(read(file.read_text(encoding="utf-8"), base=base), today)
    if not lines:
        return ""
    rest = [f"… and {len(lines) - LONGEST} more"] if len(lines) > LONGEST else []
    head = f"{shown}: {len(lines)} properties changed. Expected what it records. Fix: correct the code, or {COMMAND}"
    return "\n".join([head, *lines[:LONGEST], *rest])


# --- templates -------------------------------------------------------------------------------------------------------


def of_templates(
    templates: Mapping[str, Mapping[str, Any]], *, environment: str, cluster: str, tags: Mapping[str, str]
) -> Record:
    """Every resource, Kubernetes object, output and condition of an environment's stacks.

    Args:
        templates: Stack name (`dev-Network`) to template.
        environment: Its name, which is `<env>` in the record.
        cluster: Name of its HyperPod cluster, which is `<cluster>`.
        tags: The tags that each resource must have, which are `<tags>` where it has all of them.
    """
    return _Templates(templates, environment=environment, cluster=cluster, tags=tags).record()


class _Templates:
    def __init__(
        self,
        templates: Mapping[str, Mapping[str, Any]],
        *,
        environment: str,
        cluster: str,
        tags: Mapping[str, str],
    ) -> None:
        self._templates = {name.removeprefix(f"{environment}-"): each for name, each in templates.items()}
        self._own = re.compile(rf"(?<![a-z0-9])(?:{re.escape(cluster)}|{re.escape(environment)})(?![a-z0-9])")
        self._environment = environment
        self._cluster = cluster
        self._tags = tags
        self._ids = {stack: self._short(template) for stack, template in self._templates.items()}
        self._exports = {
            text_of(output["Export"]["Name"]): (stack, output["Value"])
            for stack, template in self._templates.items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }

    def _short(self, template: Mapping[str, Any]) -> dict[str, str]:
        """Logical ids without what is generated in them; whole where two would be the same."""
        short = {
            logical_id: re.sub(r"[0-9A-F]{8}", "", re.sub(r"[0-9A-F]{8}$", "", logical_id)).replace(
                self._environment.replace("-", "") + "Network", "Network"
            )
            for section in ("Resources", "Conditions", "Parameters")
            for logical_id in template.get(section, {})
        }
        names = list(short.values())
        return {key: value if names.count(value) == 1 else key for key, value in short.items()}

    def record(self) -> Record:
        record: Record = {}
        for stack, template in self._templates.items():
            for logical_id, resource in template["Resources"].items():
                name = f"{stack}/{self._ids[stack][logical_id]}"
                content = {key: each for key, each in resource.items() if key not in ("Type", "Metadata", "Properties")}
                content["DependsOn"] = sorted(self._ids[stack][each] for each in _listed(resource.get("DependsOn", [])))
                content |= self._tagged(resource.get("Properties", {}))
                content = self._plain(content, stack)
                if resource["Type"] == MANIFEST:
                    objects = json.loads(content.pop("Manifest"))
                    content["Manifest"] = [_label(each) for each in objects]
                    record |= {f"{name}: {_label(each)}": _properties(each) for each in objects}
                record[f"{name} {resource['Type']}"] = _properties(content)
            for section in ("Conditions", "Outputs"):
                for key, content in template.get(section, {}).items():
                    if "Export" not in content:
                        record[f"{stack}/{key} {section}"] = _properties(self._plain(content, stack))
        return record

    def _tagged(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """The properties, with one word for the tags that each resource must have."""
        listed = properties.get("Tags")
        if isinstance(listed, list) and all(
            isinstance(each, dict) and each.keys() == {"Key", "Value"} for each in listed
        ):
            listed = {each["Key"]: each["Value"] for each in listed}
        if not isinstance(listed, dict) or not self._tags.items() <= listed.items():
            return dict(properties)
        own = {key: each for key, each in listed.items() if key not in self._tags}
        return {**properties, "Tags": {"<tags>": "all", **own}}

    def _plain(self, value: Any, stack: str) -> Any:
        """References as `${Resource.Attribute}`, joined text as text, this environment's own names as `<env>`."""
        if isinstance(value, list):
            return [self._plain(element, stack) for element in value]
        if isinstance(value, str) and value.strip() not in _files():
            return self._own.sub(lambda found: "<cluster>" if found[0] == self._cluster else "<env>", value)
        if not isinstance(value, dict):
            return value
        text = self._intrinsic(value, stack)
        return text or {self._plain(key, stack): self._plain(child, stack) for key, child in value.items()}

    def _intrinsic(self, value: Mapping[str, Any], stack: str) -> str:
        """What CloudFormation resolves, as text; the empty text for other objects."""
        text = ""
        match list(value.items()):
            case [("Ref", str(name))]:
                text = f"${{{self._ids[stack].get(name, name)}}}"
            case [("Fn::GetAtt", [str(name), str(attribute)])]:
                text = f"${{{self._ids[stack].get(name, name)}.{attribute}}}"
            case [("Fn::ImportValue", name)] if text_of(name) in self._exports:
                exporter, exported = self._exports[text_of(name)]
                text = f"{exporter}/{self._plain(exported, exporter)}"
            case [("Fn::Split", [str(between), split])]:
                text = f"{self._plain(split, stack)} by {between}"
            case [("Fn::Select", [number, dict(parts)])]:
                text = f"${{part {number} of {self._plain(parts, stack)}}}"
            case [("Fn::Join", [str(between), list(parts)])]:
                text = between.join(str(self._plain(part, stack)) for part in parts)
        return text


def _label(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return _stable(" ".join(filter(None, (manifest["kind"], metadata.get("namespace"), metadata["name"]))))


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


# --- Kubernetes ------------------------------------------------------------------------------------------------------


def of_objects(objects: Mapping[str, list[dict[str, Any]]]) -> Record:
    """Every Kubernetes object, by the manifest that holds it."""
    return {f"{manifest}: {_label(each)}": _properties(each) for manifest, listed in objects.items() for each in listed}
