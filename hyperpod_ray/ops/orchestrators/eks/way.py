"""Whether commands on this machine get to the Kubernetes API of the environment, and how."""

from __future__ import annotations

from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.orchestrators.check import Outcome, ok, skipped, warning
from hyperpod_ray.ops.reach import tunnel
from hyperpod_ray.ops.reach.clients import Target


def way(target: Target) -> list[Outcome]:
    """A public endpoint, an address that answers, or a tunnel by the Session Manager plugin."""
    try:
        cluster = target.aws.call("eks", "describe_cluster", name=target.plan.eks_cluster_name)["cluster"]
    except Exception as error:
        if not absent(error):
            raise
        return [skipped("the deployment creates the cluster")]
    there = tunnel.Endpoint.of(cluster)
    if not there.private:
        return [ok("its endpoint is public")]
    if tunnel.reachable(there.host, there.port):
        return [ok(f"{there.host} answers from here")]
    try:
        tunnel.require_plugin()
    except OpsError as error:
        return [warning(error.what, expected=error.expected, fix=error.fix)]
    return [ok(f"private: commands open a tunnel by {tunnel.PLUGIN}")]
