"""The Kubernetes objects and Helm releases that an assembly's templates carry, as objects and not as a line of JSON."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hyperpod_ray.review.assembly import EnvironmentAssembly, Key, Stack
from hyperpod_ray.review.references import Reader

MANIFEST_TYPE = "Custom::AWSCDK-EKS-KubernetesResource"
RELEASE_TYPE = "Custom::AWSCDK-EKS-HelmChart"
_PRUNE_LABEL = "aws.cdk.eks/prune-"
_HASH = re.compile(r"-[0-9a-f]{8,}$")


class ObjectName(NamedTuple):
    """What identifies an object in a cluster."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, kw_only=True)
class KubernetesObject:
    """One object of a manifest."""

    id: ObjectName
    data: dict[str, Any]
    manifest: Key
    """The custom resource that applies it."""
    where: str

    @property
    def stem(self) -> ObjectName:
        """The name without a content hash at its end."""
        return self.id._replace(name=_HASH.sub("", self.id.name))


@dataclass(frozen=True, kw_only=True)
class Release:
    """One Helm release."""

    name: str
    namespace: str
    chart: str
    version: str
    content: str
    """Content hash of the chart as uploaded."""
    values: dict[str, Any]
    where: str
    key: Key

    def __str__(self) -> str:
        return f"release {self.namespace}/{self.name}"


class Cluster:
    """What one version of an environment puts into Kubernetes."""

    def __init__(self, assembly: EnvironmentAssembly, reader: Reader) -> None:
        self._assembly, self._reader = assembly, reader
        self.unreadable: list[str] = []

    @cached_property
    def objects(self) -> dict[ObjectName, KubernetesObject]:
        """Every object of every manifest."""
        objects: dict[ObjectName, KubernetesObject] = {}
        for key, resource in self._assembly.of_type(MANIFEST_TYPE):
            stack = self._assembly.stacks[key.stack]
            where = stack.title(key.logical_id)
            try:
                items = json.loads(self._reader.json_text(resource["Properties"]["Manifest"], stack))
            except ValueError:
                self.unreadable.append(where)
                continue
            for document in items:
                data = _without_prune_label(document)
                metadata = data.get("metadata", {})
                name = ObjectName(data.get("kind", "?"), metadata.get("namespace", ""), metadata.get("name", "?"))
                objects[name] = KubernetesObject(id=name, data=data, manifest=key, where=where)
        return objects

    @cached_property
    def releases(self) -> dict[str, Release]:
        """Helm releases by namespace and name."""
        releases: dict[str, Release] = {}
        for key, resource in self._assembly.of_type(RELEASE_TYPE):
            stack = self._assembly.stacks[key.stack]
            release = self._release(key, resource["Properties"], stack)
            releases[f"{release.namespace}/{release.name}"] = release
        return releases

    def _release(self, key: Key, properties: dict[str, Any], stack: Stack) -> Release:
        address = self._reader.text(properties.get("ChartAssetURL", ""), stack)
        content = next(iter(re.findall(r"[0-9a-f]{64}", address)), "")
        described = _chart(stack.folder, content)
        values = self._reader.json_text(properties.get("Values", "{}"), stack)
        try:
            parsed = json.loads(values)
        except ValueError:
            self.unreadable.append(stack.title(key.logical_id))
            parsed = {}
        return Release(
            name=self._reader.text(properties.get("Release", ""), stack),
            namespace=self._reader.text(properties.get("Namespace", "default"), stack),
            chart=described.get("name") or self._reader.text(properties.get("Chart", "?"), stack),
            version=str(described.get("version") or self._reader.text(properties.get("Version", "?"), stack)),
            content=content,
            values=parsed,
            where=stack.title(key.logical_id),
            key=key,
        )

    @cached_property
    def namespaces_of_ray(self) -> set[str]:
        """Namespaces in which Ray's pods run."""
        return {name.namespace for name in self.objects if name.kind == "RayCluster"}

    def namespaces_of(self, manifest: Key) -> set[str]:
        """Namespaces of a manifest's objects: `kubectl apply --prune` looks into no others."""
        return {k8s_object.id.namespace for k8s_object in self.objects.values() if k8s_object.manifest == manifest}


def yaml_text(data: Any) -> str:
    """As people write it."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=False, width=110, allow_unicode=True, default_flow_style=False)
    return text


def yaml_diff(before: Any, after: Any, *, context: int = 3) -> list[str]:
    """Unified diff of two objects as YAML, without file headers; None stands for no object."""
    lines_before = [] if before is None else yaml_text(before).splitlines()
    lines_after = [] if after is None else yaml_text(after).splitlines()
    return list(difflib.unified_diff(lines_before, lines_after, lineterm="", n=context))[2:]


def pairs(base: Cluster, head: Cluster) -> Iterator[tuple[KubernetesObject | None, KubernetesObject | None]]:
    """Objects of base and head side by side, only those that differ; Jobs named with a hash pair by their stem."""
    gone = {key: k8s_object for key, k8s_object in base.objects.items() if key not in head.objects}
    for key, k8s_object in head.objects.items():
        before = base.objects.get(key)
        if before is None and k8s_object.id.kind == "Job":
            match = next((candidate for candidate in gone.values() if candidate.stem == k8s_object.stem), None)
            if match is not None:
                del gone[match.id]
                before = match
        if before is None or before.data != k8s_object.data:
            yield before, k8s_object
    for k8s_object in gone.values():
        yield k8s_object, None


def _without_prune_label(document: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(document.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if not key.startswith(_PRUNE_LABEL)}
    if labels:
        metadata["labels"] = labels
    else:
        metadata.pop("labels", None)
    return {**document, "metadata": metadata}


def _chart(folder: Path, content: str) -> dict[str, Any]:
    """`Chart.yaml` of a chart that lies in the assembly as an asset; empty when it does not."""
    for directory in (folder, folder.parent):
        file = directory / f"asset.{content}" / "Chart.yaml"
        if content and file.is_file():
            data = yaml.safe_load(file.read_text(encoding="utf-8"))
            return data if isinstance(data, dict) else {}
    return {}
