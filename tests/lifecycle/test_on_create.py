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

    def run(self, script: Path = SCRIPT, **extra: str) -> subprocess.CompletedProcess[str]:
        """The script, as HyperPod runs it."""
        environment = {**os.environ, "PATH": f"{self._bin}:{os.environ['PATH']}", "ROOT": str(self.root), **extra}
        return subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False)

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


EFA_CLIENT = "etc/eks/configure-efa-fsx-lustre-client/setup.sh"


def with_efa(node: Node, *, client: str | None, interfaces: str) -> subprocess.CompletedProcess[str]:
    """The script beside the file that says that the file system is EFA-enabled, as HyperPod lays them down."""
    folder = node.root / "lifecycle"
    folder.mkdir()
    script = folder / SCRIPT.name
    script.write_text(SCRIPT.read_text())
    (folder / "efa-file-system").write_text("Lustre uses EFA\n")
    if client is not None:
        (node.root / EFA_CLIENT).parent.mkdir(parents=True)
        (node.root / EFA_CLIENT).write_text(f"echo set-up >>{node.root}/calls\n{client}\n")
    node._command("lnetctl", f"echo '{interfaces}'")
    return node.run(script=script)


@pytest.mark.parametrize("client", ["true", "exit 1"])
def test_lustre_is_configured_for_an_efa_enabled_file_system(node: Node, client: str) -> None:
    """Whatever the set-up's exit code: systemd may cancel its first start."""
    done = with_efa(node, client=client, interfaces="nid: 192.0.2.1@efa")
    assert done.returncode == 0, done.stderr
    assert "Lustre uses EFA" in done.stdout
    assert node.calls[-2:] == ["set-up", "lnetctl net show --net efa"]


def test_a_node_without_the_set_up_or_an_interface_says_so_and_joins(node: Node) -> None:
    done = with_efa(node, client=None, interfaces="")
    assert done.returncode == 0, done.stderr
    assert "WARNING: this AMI has no /etc/eks/configure-efa" in done.stdout
    (node.root / EFA_CLIENT).parent.mkdir(parents=True)
    (node.root / EFA_CLIENT).write_text("true\n")
    done = node.run(script=node.root / "lifecycle" / SCRIPT.name)
    assert done.returncode == 0, done.stderr
    assert "WARNING: Lustre has no EFA interface" in done.stdout


def test_lustre_stays_as_it_is_for_other_file_systems(node: Node) -> None:
    (node.root / EFA_CLIENT).parent.mkdir(parents=True)
    (node.root / EFA_CLIENT).write_text(f"echo set-up >>{node.root}/calls\n")
    assert node.run().returncode == 0
    assert "set-up" not in node.calls
