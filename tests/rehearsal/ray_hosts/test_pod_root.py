"""A root of a pod's own: the shared path shows the cluster's folder, to the pod alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster


def test_the_shared_file_system_of_a_pod_is_the_cluster_s_folder(cluster: Cluster, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.write_text("a checkpoint")
    machine = Path("/fsx")
    before = sorted(machine.iterdir()) if machine.is_dir() else None
    for pod in cluster.state.pods:
        inside = Path("/proc", str(cluster.members(pod)[0]), "root", "fsx")
        if cluster.state.mode == "session":
            assert inside.is_dir() == machine.is_dir(), "no namespace: it is the machine's"
            continue
        subprocess.run(["cp", checkpoint, inside / pod.name], check=True)
        assert (cluster.fsx / pod.name).read_text() == "a checkpoint"
        assert {path.name for path in inside.parent.iterdir()} == {path.name for path in Path("/").iterdir()} | {"fsx"}
    assert (sorted(machine.iterdir()) if machine.is_dir() else None) == before
