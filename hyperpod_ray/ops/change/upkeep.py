"""What of a running cluster ends or ages by itself, as sentences for a review."""

from __future__ import annotations

from hyperpod_ray.ops.errors import explain
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.verdict import upkeep


def sentences(target: AnyTarget) -> list[str]:
    """Training plans that end and AMIs that are old, each with its next command; none without a cluster.

    A review is about a change: where the account refuses these calls, one sentence says so.
    """
    try:
        cluster = hyperpod.cluster(target)
        if cluster is None:
            return []
        plans = hyperpod.training_plans(target, cluster)
    except Exception as error:
        known = explain(error, environment=target.name)
        if known is None:
            raise
        return [f"Training plans and AMIs of the running cluster are not known: {known.message}"]
    seen = Snapshot(environment=target.name, at=now(), cluster=cluster, training_plans=plans)
    found = [*upkeep.training_plans(seen), *upkeep.images(seen)]
    return [f"{item.what[:1].upper()}{item.what[1:]}. Next: `{item.next}`" for item in found]
