"""What tests of `node_map`, `node_rows`, `scale`, `serve` share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hyperpod_ray.core.names import node_name
from hyperpod_ray.ops.observe.snapshot import Node, Snapshot
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.web import page
from hyperpod_ray.ops.web.environment import view
from hyperpod_ray.ops.web.view import View
from hyperpod_ray.ops.web.watch import Latest
from hyperpod_ray.pricing import price_file
from tests.support import pages
from tests.support.pages import NOW

COUNT, RACK = 1000, 16


def thousand(*, bad: frozenset[int] = frozenset()) -> Snapshot:
    """A healthy environment with a thousand workers, 16 below each network node; some do not answer."""
    base = pages.healthy()
    assert base.cluster is not None
    instances = [pages._instance(number + 10, "workers", "ml.p5.48xlarge") for number in range(COUNT)]
    nodes = [
        Node(name=node_name(instance.id), ready=number not in bad, unreachable=number in bad, group="workers",
             health="Schedulable", since=pages.ago(14), created=pages.ago(2000),
             network=("nn-top", f"nn-mid{number // 256}", f"nn-{number // RACK:017x}"))
        for number, instance in enumerate(instances)
    ]  # fmt: skip
    pods = [pages._pod(f"ray-gpu-worker-{number}", instance) for number, instance in enumerate(instances)]
    head, workers = base.cluster.groups
    return replace(
        base,
        cluster=replace(base.cluster, groups=(head, replace(workers, target=COUNT, current=COUNT))),
        instances=(*base.instances[:2], *instances),
        nodes=(*base.nodes[:2], *nodes),
        pods=(base.pods[0], *pods),
        ray_clusters=(replace(base.ray_clusters[0], desired_workers=COUNT, ready_workers=COUNT),),
        events=(),
    )


def shown(folder: Path, snapshot: Snapshot) -> tuple[View, str]:
    data = view(pages.plan(folder), snapshot, judge(snapshot), prices=price_file.recorded())
    sections = page.sections(Latest(value=data, at=NOW), environment="demo", every=15)
    return data, page.document("demo", sections, every=15, tone=data.tone)
