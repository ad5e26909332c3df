"""What a change makes more or less secure, and what it switches off or on."""

from __future__ import annotations

from hyperpod_ray.review.changes import Changes
from hyperpod_ray.review.findings import Remark
from hyperpod_ray.review.security import access, iam, network, objects, settings

__all__ = ["remarks"]


def remarks(changes: Changes) -> list[Remark]:
    """Every remark on one environment, without duplicates."""
    all_remarks = [
        *iam.remarks(changes),
        *network.remarks(changes),
        *access.remarks(changes),
        *settings.remarks(changes),
        *objects.remarks(changes.base_cluster, changes.head_cluster),
    ]
    return list(dict.fromkeys(all_remarks))
