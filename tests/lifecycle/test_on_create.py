"""The lifecycle script, run twice in a folder that plays the node's root, with the system's commands replaced."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "lifecycle" / "on_create.sh"
UNIT = "etc/systemd/system/var-lib-containerd.mount"


class Node:
    """A node's root, and commands that write down how they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bin = root / "stub-bin"
        self._bin.mkdir(parents=True)
        self._calls = root / "calls"
        (root / "var/lib/containerd").mkdir(parents=True)
        (root / "var/lib/containerd/pause-image").write_text("brought by the AMI")
        self._command("sysctl", "")
        self._command("mountpoint", f'grep --quiet --line-regexp -- "$2" {root}/mounts')
        # what systemd does with the unit: from then on the folder is a mount point
        self._command("systemctl", f'[[ $1 != enable ]] || echo "{root}/var/lib/containerd" >>{root}/mounts')
        (root / "mounts").write_text("")

    def _command(self, name: str, body: str) -> None:
        path = self._bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>{self._calls}\n{body}\n')
        path.chmod(0o755)

    def has_data_volume(self) -> None:
        """As where the instance group has an extra EBS volume."""
        (self.root / "opt/sagemaker").mkdir(parents=True)
        (self.root / "mounts").write_text(f"{self.root}/opt/sagemaker\n")

    def run(self, **extra: str) -> subprocess.CompletedProcess[str]:
        """The script, as HyperPod runs it."""
        environment = {**os.environ, "PATH": f"{self._bin}:{os.environ['PATH']}", "ROOT": str(self.root), **extra}
        return subprocess.run(["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)

    @property
    def calls(self) -> list[str]:
        """Commands called so far."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_images_move_to_the_data_volume(node: Node) -> None:
    node.has_data_volume()
    done = node.run()
    assert done.returncode == 0, done.stderr
    unit = (node.root / UNIT).read_text()
    assert "What=/opt/sagemaker/containerd" in unit
    assert "Where=/var/lib/containerd" in unit
    assert "Before=containerd.service" in unit
    assert (node.root / "opt/sagemaker/containerd/pause-image").read_text() == "brought by the AMI"
    order = [call for call in node.calls if call.startswith("systemctl")]
    assert order == [
        "systemctl daemon-reload",
        "systemctl stop containerd",
        "systemctl enable --now var-lib-containerd.mount",
        "systemctl start containerd",
    ]


def test_a_second_run_changes_nothing(node: Node) -> None:
    node.has_data_volume()
    assert node.run().returncode == 0
    before = len([call for call in node.calls if call.startswith("systemctl")])
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert "already" in done.stdout
    assert len([call for call in node.calls if call.startswith("systemctl")]) == before


def test_without_a_volume_images_stay_where_they_are(node: Node) -> None:
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert not (node.root / UNIT).exists()
    assert not any(call.startswith("systemctl") for call in node.calls)


def test_limits_are_raised_on_every_node(node: Node) -> None:
    assert node.run().returncode == 0
    limits = (node.root / "etc/security/limits.d/90-ray-on-hyperpod.conf").read_text()
    assert "* hard memlock unlimited" in limits
    assert "vm.max_map_count = 1048576" in (node.root / "etc/sysctl.d/90-ray-on-hyperpod.conf").read_text()


def test_a_failure_names_its_line_and_fails_the_node(node: Node) -> None:
    node._command("sysctl", "exit 3")
    done = node.run()
    assert done.returncode != 0
    assert "on_create: failed in line" in done.stderr


def test_nothing_is_downloaded() -> None:
    words = SCRIPT.read_text().split()
    assert not {"curl", "wget", "yum", "dnf", "apt-get", "pip"} & set(words)
