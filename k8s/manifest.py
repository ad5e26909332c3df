"""One concern, its objects, and how cdk8s makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cdk8s

from hyperpod_ray.core import names

PART_OF = {names.PART_OF_LABEL: names.PROJECT}
"""Label of every object created here, so that `kubectl get -l` finds them."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One concern: one `KubernetesManifest` in a deploy, one file in `make manifests`.

    Kept apart because the kubectl handler prunes per manifest: an object that leaves a manifest is deleted, one that
    moves to another manifest would be deleted and created again.

    Args:
        name: PascalCase and stable: it becomes a construct id.
        objects: Kubernetes objects in apply order.
        after: names of the manifests of the same list that are applied before it, and deleted after it.
    """

    name: str
    objects: list[dict[str, Any]]
    after: tuple[str, ...] = ()


def build(name: str, define: Callable[[cdk8s.Chart], None]) -> Manifest:
    """Run `define` in a chart of its own and take the objects, in the order they were defined.

    No namespace is set on the chart: cdk8s would stamp it on cluster-scoped kinds too.
    """
    app = cdk8s.App()
    chart = cdk8s.Chart(app, "chart", disable_resource_name_hashes=True)
    define(chart)
    return Manifest(name=name, objects=[_ordered(document) for document in chart.to_json()])


def custom_object(
    chart: cdk8s.Chart,
    construct_id: str,
    *,
    api_version: str,
    kind: str,
    name: str,
    namespace: str,
    spec: Mapping[str, Any],
) -> None:
    """An object of a kind that cdk8s has no class for; its spec goes in as written."""
    api_object = cdk8s.ApiObject(
        chart,
        construct_id,
        api_version=api_version,
        kind=kind,
        metadata=cdk8s.ApiObjectMetadata(name=name, namespace=namespace, labels=PART_OF),
    )
    # ApiObject's constructor takes no spec in Python
    api_object.add_json_patch(cdk8s.JsonPatch.add("/spec", dict(spec)))


def _ordered(document: dict[str, Any]) -> dict[str, Any]:
    head = [key for key in ("apiVersion", "kind", "metadata") if key in document]
    return {key: document[key] for key in [*head, *(key for key in document if key not in head)]}
