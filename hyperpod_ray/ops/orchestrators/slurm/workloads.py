"""What of an environment on Slurm goes before its stacks: nothing is outside them."""

from __future__ import annotations

from collections.abc import Sequence

from hyperpod_ray.core import names
from hyperpod_ray.ops.observe.snapshot import Claim, RayCluster
from hyperpod_ray.ops.orchestrators.interface import Inside


class SlurmWorkloads:
    """Jobs end with their nodes, and the stack alone creates file systems."""

    def inside(self) -> Inside | None:
        """Nothing."""
        return None

    def created_for(self, claim: Claim) -> bool:
        """There are no claims."""
        del claim
        return False

    def delete(self, ray_clusters: Sequence[RayCluster], jobs: Sequence[str]) -> None:
        """Nothing to delete."""

    def left(self) -> list[str]:
        """Nothing."""
        return []

    def delete_claims(self, claims: Sequence[Claim]) -> None:
        """Nothing to delete."""

    def deletes_volumes(self, driver: str = names.CSI_DRIVER) -> bool:
        """Nothing in the cluster deletes file systems or volumes."""
        return False
