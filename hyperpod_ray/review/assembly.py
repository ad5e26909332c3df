"""Reads a cloud assembly (`cdk.out`): its environments, their stacks and templates.

https://docs.aws.amazon.com/cdk/v2/guide/deploy.html#deploy-how-synth-app
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from hyperpod_ray.review.errors import ReviewError


class Key(NamedTuple):
    """A resource: its stack's artifact id and its logical id."""

    stack: str
    logical_id: str


@dataclass(kw_only=True, eq=False)
class Stack:
    """One CloudFormation stack of an assembly; nested stacks are stacks with a parent."""

    id: str
    name: str
    """Physical name, for example `prod-HyperPod`."""
    path: str
    """Construct path, for example `prod/HyperPod`."""
    folder: Path
    template: dict[str, Any]
    account: str = ""
    region: str = ""
    protected: bool = False
    depends_on: tuple[str, ...] = ()
    paths: dict[str, str] = field(default_factory=dict)
    """Logical id → construct path."""
    parent: Key | None = None
    """The `AWS::CloudFormation::Stack` that makes this nested one."""

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """Resources by logical id."""
        resources: dict[str, dict[str, Any]] = self.template.get("Resources", {})
        return resources

    def title(self, logical_id: str) -> str:
        """Construct path of a resource inside the environment, without the parts that CDK adds."""
        path = self.paths.get(logical_id)
        if path is None:
            return f"{self.path.partition('/')[2] or self.path}/{logical_id}"
        parts = path.strip("/").split("/")[1:]
        while len(parts) > 2 and parts[-1] in {"Resource", "Default"}:
            parts.pop()
        return "/".join(parts)


@dataclass(kw_only=True)
class EnvironmentAssembly:
    """One environment (CDK Stage) of an assembly: its stacks, in the order of their deployment."""

    name: str
    folder: Path
    stacks: dict[str, Stack]

    def resource(self, key: Key) -> dict[str, Any] | None:
        """The resource, or None."""
        stack = self.stacks.get(key.stack)
        return stack.resources.get(key.logical_id) if stack else None

    def of_type(self, resource_type: str) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Every resource of a type."""
        for key, resource in self.all():
            if resource.get("Type") == resource_type:
                yield key, resource

    def all(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Every resource."""
        for stack in self.stacks.values():
            for logical_id, resource in stack.resources.items():
                yield Key(stack.id, logical_id), resource

    def title(self, key: Key) -> str:
        """Construct path of a resource."""
        return self.stacks[key.stack].title(key.logical_id)

    @cached_property
    def exports(self) -> dict[str, tuple[Stack, Any]]:
        """Export name → the stack that exports it, and the value."""
        exported: dict[str, tuple[Stack, Any]] = {}
        for stack in self.stacks.values():
            for output in stack.template.get("Outputs", {}).values():
                name = output.get("Export", {}).get("Name")
                if isinstance(name, str):
                    exported[name] = (stack, output.get("Value"))
        return exported


def read(folder: Path) -> dict[str, EnvironmentAssembly]:
    """Every environment of the assembly in `folder`; stacks outside a stage are the environment called ''.

    Raises:
        ReviewError: When `folder` holds no assembly.
    """
    manifest = _json(folder / "manifest.json")
    environments: dict[str, EnvironmentAssembly] = {}
    top_stacks = _stacks(folder, manifest)
    if top_stacks:
        environments[""] = EnvironmentAssembly(name="", folder=folder, stacks=top_stacks)
    for artifact in manifest.get("artifacts", {}).values():
        if artifact.get("type") != "cdk:cloud-assembly":
            continue
        properties = artifact["properties"]
        inner = folder / properties["directoryName"]
        name = properties.get("displayName") or properties["directoryName"].removeprefix("assembly-")
        environments[name] = EnvironmentAssembly(
            name=name, folder=inner, stacks=_stacks(inner, _json(inner / "manifest.json"))
        )
    return environments


def _stacks(folder: Path, manifest: dict[str, Any]) -> dict[str, Stack]:
    artifacts = manifest.get("artifacts", {})
    stacks = {
        key: _stack(key, value, folder)
        for key, value in artifacts.items()
        if value.get("type") == "aws:cloudformation:stack"
    }
    for stack in list(stacks.values()):
        _add_nested(stack, stacks)
    return _in_order(stacks)


def _stack(artifact_id: str, artifact: dict[str, Any], folder: Path) -> Stack:
    properties = artifact.get("properties", {})
    account, _, region = artifact.get("environment", "").removeprefix("aws://").partition("/")
    metadata = artifact.get("metadata") or {}
    extra = artifact.get("additionalMetadataFile")
    extra = extra or f"{artifact_id}.metadata.json"
    if (folder / extra).is_file():
        metadata = {**metadata, **_json(folder / extra)}
    return Stack(
        id=artifact_id,
        name=properties.get("stackName", artifact_id),
        path=artifact.get("displayName", artifact_id),
        folder=folder,
        template=_json(folder / properties["templateFile"]),
        account=account,
        region=region,
        protected=bool(properties.get("terminationProtection")),
        depends_on=tuple(
            dependency for dependency in artifact.get("dependencies", []) if not dependency.endswith(".assets")
        ),
        paths=_paths(metadata),
    )


def _paths(metadata: dict[str, Any]) -> dict[str, str]:
    """Logical id → construct path, as the metadata file has it."""
    return {
        metadata_entry["data"]: path
        for path, entries in metadata.items()
        for metadata_entry in entries
        if metadata_entry.get("type") == "aws:cdk:logicalId" and isinstance(metadata_entry.get("data"), str)
    }


def _add_nested(parent: Stack, stacks: dict[str, Stack]) -> None:
    for logical_id, resource in parent.resources.items():
        if resource.get("Type") != "AWS::CloudFormation::Stack":
            continue
        file = resource.get("Metadata", {}).get("aws:asset:path")
        if not isinstance(file, str) or not (parent.folder / file).is_file():
            continue
        nested = Stack(
            id=f"{parent.id}.{logical_id}",
            name=f"{parent.name}-{logical_id}",
            path=f"{parent.path}/{logical_id}",
            folder=parent.folder,
            template=_json(parent.folder / file),
            account=parent.account,
            region=parent.region,
            paths=parent.paths,
            parent=Key(parent.id, logical_id),
        )
        stacks[nested.id] = nested
        _add_nested(nested, stacks)


def _in_order(stacks: dict[str, Stack]) -> dict[str, Stack]:
    """The stacks, each after those it depends on; otherwise in the manifest's order."""
    ordered: dict[str, Stack] = {}

    def visit(stack: Stack) -> None:
        if stack.id in ordered:
            return
        for name in stack.depends_on:
            if name in stacks:
                visit(stacks[name])
        ordered[stack.id] = stack

    for stack in stacks.values():
        visit(stack)
    return ordered


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReviewError(
            f"{path}: no such file",
            expected="a folder that `cdk synth` wrote",
            fix="correct the path, or synthesize first",
        ) from None
    except (OSError, ValueError) as error:
        raise ReviewError(
            f"{path}: cannot be read as JSON: {error}", expected="a file of an assembly", fix="synthesize again"
        ) from None
    if not isinstance(data, dict):
        raise ReviewError(f"{path}: {type(data).__name__}", expected="a JSON object", fix="synthesize again")
    return data
