"""The script that gives the AMI's user a home on the shared file system, run on nodes that share one, also at once."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = PROJECT / "constructs" / "with_homes.sh"
KEY = "ssh-ed25519 AAAA{} ubuntu@node-{}"


class Node:
    """The root folder of a node, with the system's commands replaced where they would change this machine."""

    def __init__(self, folder: Path, number: int, *, homes: Path, mounted: bool = True, user: bool = True) -> None:
        self.root, self.number = folder / f"node-{number}", number
        self._calls = self.root / "calls"
        self._bin = self.root / "stub-bin"
        self._bin.mkdir(parents=True)
        self._passwd = self.root / "passwd"
        (self.root / "homes").symlink_to(homes)
        ssh = self.root / "home" / "ubuntu" / ".ssh"
        ssh.mkdir(parents=True)
        ssh.chmod(0o700)
        (ssh / "authorized_keys").write_text(f"{KEY.format(0, 'all')}\n{KEY.format(number, number)}\n")
        (ssh / "authorized_keys").chmod(0o600)
        (self.root / "home" / "ubuntu" / ".bashrc").write_text("of the AMI\n")
        (self.root / "etc").mkdir()
        (self.root / "etc" / "adduser.conf").write_text("#DHOME=/home\nGROUPHOMES=no\n")
        self._passwd.write_text("ubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n" if user else "")
        self.command("mountpoint", "exit 0" if mounted else "exit 1")
        self.command("getent", f'[[ -s {self._passwd} ]] || exit 2; cat "{self._passwd}"')
        self.command("usermod", f'printf "ubuntu:x:1000:1000::%s:/bin/bash\\n" "$2" >"{self._passwd}"')
        self.command("useradd", "exit 0")
        self.scripts = self.root / "scripts"
        self.scripts.mkdir()
        (self.scripts / "with_homes.sh").write_text(SCRIPT.read_text(encoding="utf-8"))
        (self.scripts / "homes-path").write_text("/homes\n")
        self.then("")

    def command(self, name: str, body: str) -> None:
        """Replace a command of the system."""
        path = self._bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>{self._calls}\n{body}\n')
        path.chmod(0o755)

    def then(self, name: str, text: str = "") -> None:
        """What runs after it."""
        (self.scripts / "after-homes").write_text(f"{name}\n")
        if name:
            (self.scripts / name).write_text(text)

    def run(self) -> subprocess.CompletedProcess[str]:
        """The script, as HyperPod runs it."""
        variables = {
            **os.environ, "PATH": f"{self._bin}:{os.environ['PATH']}", "ROOT": str(self.root), "MOUNT_POLL": "0",
        }  # fmt: skip
        return subprocess.run(
            ["bash", str(self.scripts / "with_homes.sh")], env=variables, capture_output=True, text=True, check=False
        )

    @property
    def home(self) -> str:
        """Home of the AMI's user."""
        return self._passwd.read_text().split(":")[5]

    @property
    def calls(self) -> list[str]:
        """Replaced commands that were called."""
        return self._calls.read_text().splitlines()


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    """The file system, as FSx hands it over: everybody may make folders at its top."""
    folder = tmp_path / "file-system"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def keys(homes: Path) -> list[str]:
    return sorted((homes / "ubuntu" / ".ssh" / "authorized_keys").read_text().splitlines())


def test_the_user_is_at_home_there_with_the_files_of_the_ami(tmp_path: Path, homes: Path) -> None:
    node = Node(tmp_path, 1, homes=homes)
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.home == "/homes/ubuntu"
    assert (homes / "ubuntu" / ".bashrc").read_text() == "of the AMI\n"
    assert keys(homes) == [KEY.format(0, "all"), KEY.format(1, 1)]
    assert (homes / "ubuntu" / ".ssh").stat().st_mode & 0o777 == 0o700, "sshd reads no keys that others may write"
    assert (homes / "ubuntu" / ".ssh" / "authorized_keys").stat().st_mode & 0o777 == 0o600
    assert (node.root / "home" / "ubuntu" / ".bashrc").exists(), "the AMI's folder stays on the node"
    assert homes.stat().st_mode & 0o777 == 0o755, "a user could put a folder in the place of another's"


def test_what_useradd_makes_is_there(tmp_path: Path, homes: Path) -> None:
    node = Node(tmp_path, 1, homes=homes)
    assert node.run().returncode == 0
    assert "useradd --defaults --base-dir /homes" in node.calls
    assert (node.root / "etc" / "adduser.conf").read_text() == "DHOME=/homes\nGROUPHOMES=no\n"


def test_a_second_run_changes_nothing(tmp_path: Path, homes: Path) -> None:
    node = Node(tmp_path, 1, homes=homes)
    assert node.run().returncode == 0
    (homes / "ubuntu" / ".bashrc").write_text("of a person\n")
    assert node.run().returncode == 0
    assert (homes / "ubuntu" / ".bashrc").read_text() == "of a person\n"
    assert [call for call in node.calls if call.startswith("usermod")] == ["usermod --home /homes/ubuntu ubuntu"]


def test_a_node_that_comes_later_brings_its_keys_and_no_other_file(tmp_path: Path, homes: Path) -> None:
    assert Node(tmp_path, 1, homes=homes).run().returncode == 0
    (homes / "ubuntu" / ".bashrc").write_text("of a person\n")
    (homes / "ubuntu" / ".ssh" / "authorized_keys").open("a").write("ssh-ed25519 BBBB a-person")
    later = Node(tmp_path, 2, homes=homes)
    assert later.run().returncode == 0
    assert (homes / "ubuntu" / ".bashrc").read_text() == "of a person\n"
    assert keys(homes) == [KEY.format(0, "all"), KEY.format(1, 1), KEY.format(2, 2), "ssh-ed25519 BBBB a-person"]
    assert later.home == "/homes/ubuntu"


def test_a_line_is_known_as_a_whole(tmp_path: Path, homes: Path) -> None:
    """An empty line is allowed, and the line of a key with options has that of the key in it: neither hides another.

    https://man.openbsd.org/sshd#AUTHORIZED_KEYS_FILE_FORMAT
    """
    assert Node(tmp_path, 1, homes=homes).run().returncode == 0
    (homes / "ubuntu" / ".ssh" / "authorized_keys").open("a").write("\n# people\n")
    later = Node(tmp_path, 2, homes=homes)
    mine = later.root / "home" / "ubuntu" / ".ssh" / "authorized_keys"
    mine.write_text(f'{KEY.format(0, "all")}\nfrom="10.0.0.0/8" {KEY.format(1, 1)}\n{KEY.format(2, 2)}\n')
    assert later.run().returncode == 0
    added = [f'from="10.0.0.0/8" {KEY.format(1, 1)}', KEY.format(2, 2)]
    assert keys(homes) == sorted(["", "# people", KEY.format(0, "all"), KEY.format(1, 1), *added])


def test_a_home_without_keys_gets_them(tmp_path: Path, homes: Path) -> None:
    (homes / "ubuntu").mkdir()
    node = Node(tmp_path, 3, homes=homes)
    assert node.run().returncode == 0
    assert keys(homes) == [KEY.format(0, "all"), KEY.format(3, 3)]


def test_nodes_that_start_at_once_lose_no_key(tmp_path: Path, homes: Path) -> None:
    nodes = [Node(tmp_path, number, homes=homes) for number in range(1, 9)]
    with ThreadPoolExecutor(len(nodes)) as pool:
        done = list(pool.map(lambda node: node.run(), nodes))
    assert [one.returncode for one in done] == [0] * len(nodes), [one.stderr for one in done]
    assert keys(homes) == sorted([KEY.format(0, "all"), *(KEY.format(node.number, node.number) for node in nodes)])
    assert [node.home for node in nodes] == ["/homes/ubuntu"] * len(nodes)
    assert [path.name for path in homes.iterdir()] == ["ubuntu"], "no draft is left"
    assert [path.name for path in (homes / "ubuntu" / ".ssh").iterdir()] == ["authorized_keys"]


def test_a_lock_of_a_node_that_was_lost_is_taken_over(tmp_path: Path, homes: Path) -> None:
    assert Node(tmp_path, 1, homes=homes).run().returncode == 0
    lock = homes / "ubuntu" / ".ssh" / ".merging"
    lock.mkdir()
    (lock / "authorized_keys").write_text("half a file")
    os.utime(lock, (0, 0))
    later = Node(tmp_path, 2, homes=homes).run()
    assert later.returncode == 0, later.stderr
    assert "taking /homes/ubuntu/.ssh/.merging over from a node that was lost" in later.stdout
    assert keys(homes) == [KEY.format(0, "all"), KEY.format(1, 1), KEY.format(2, 2)]
    assert [path.name for path in (homes / "ubuntu" / ".ssh").iterdir()] == ["authorized_keys"]


def test_a_lock_of_a_node_at_work_is_waited_for(tmp_path: Path, homes: Path) -> None:
    assert Node(tmp_path, 1, homes=homes).run().returncode == 0
    lock = homes / "ubuntu" / ".ssh" / ".merging"
    lock.mkdir()
    later = Node(tmp_path, 2, homes=homes)
    later.command("sleep", f'rm -rf "{lock}"')
    assert later.run().returncode == 0
    assert [call.split()[0] for call in later.calls].count("sleep") == 1
    assert keys(homes) == [KEY.format(0, "all"), KEY.format(1, 1), KEY.format(2, 2)]
    lock.mkdir()
    last = Node(tmp_path, 3, homes=homes)
    last.command("sleep", "exit 0")
    done = last.run()
    assert done.returncode == 1
    assert "/homes/ubuntu/.ssh/.merging cannot be created, tried 600 times. Expected no such folder" in done.stderr
    assert lock.exists() and last.home == "/home/ubuntu"


def test_a_link_to_a_folder_is_no_way_for_keys_to_go_there(tmp_path: Path, homes: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (homes / "ubuntu" / ".ssh").mkdir(parents=True)
    (homes / "ubuntu" / ".ssh" / "authorized_keys").symlink_to(elsewhere)
    assert Node(tmp_path, 1, homes=homes).run().returncode == 0
    assert [*elsewhere.iterdir()] == []
    assert keys(homes) == [KEY.format(0, "all"), KEY.format(1, 1)]


def test_without_the_file_system_the_node_stays_out(tmp_path: Path, homes: Path) -> None:
    """Users would write to the node's own disk, and lose it with the node."""
    node = Node(tmp_path, 1, homes=homes, mounted=False)
    node.then("next.sh", "#!/bin/bash\necho next\n")
    done = node.run()
    assert done.returncode == 1
    assert "no file system at /homes. Expected" in done.stderr
    assert "next" not in done.stdout.split()
    assert node.home == "/home/ubuntu"


def test_an_export_that_squashes_root_is_named(tmp_path: Path, homes: Path) -> None:
    node = Node(tmp_path, 1, homes=homes)
    node.command("chmod", "exit 1")
    done = node.run()
    assert done.returncode == 1
    assert "Expected an export with no_root_squash" in done.stderr


def test_an_ami_without_the_user_is_said(tmp_path: Path, homes: Path) -> None:
    node = Node(tmp_path, 1, homes=homes, user=False)
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert "this AMI has no user ubuntu" in done.stdout
    assert "useradd --defaults --base-dir /homes" in node.calls


def test_the_next_script_runs_last_and_its_failure_counts(tmp_path: Path, homes: Path) -> None:
    node = Node(tmp_path, 1, homes=homes)
    node.then("next.sh", '#!/bin/bash\necho "next at $(getent passwd ubuntu | cut -d: -f6)"\nexit 7\n')
    done = node.run()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (7, "next at /homes/ubuntu")
