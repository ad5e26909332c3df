"""Fixtures of this folder."""

from __future__ import annotations

from tests.rehearsal.ray_hosts.local_ray_cluster_helpers import cluster, project  # noqa: F401 - fixtures
