"""What tests of the EFA installer share: a site as AWS's would be, with a signature of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "hyperpod_ray/image/efa/install.sh"
VERSION = "1.50.0"
ARCHIVE = f"aws-efa-installer-{VERSION}.tar.gz"
# what AWS's own script does, as far as it can be seen: it writes below a root, and its arguments count
SCRIPT = """#!/bin/bash
printf '%s\\n' "$@" > "$EFA_ROOT/arguments"
mkdir -p "$EFA_ROOT/efa/lib" "$EFA_ROOT/ofi-nccl/lib/x86_64-linux-gnu"
touch "$EFA_ROOT/efa/lib/libfabric.so.1"
[[ -n ${NO_PLUGIN:-} ]] || touch "$EFA_ROOT/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net-ofi.so"
"""


class Site:
    """A folder as AWS's site would be, signed by a key of this test."""

    def __init__(self, folder: Path, home: Path, *, script: str = SCRIPT) -> None:
        self.folder, self.home = folder, home
        home.mkdir(mode=0o700)
        self.gpg("--quick-gen-key", "EFA <efa@example.com>", "ed25519", "sign", "never")
        listed = self.gpg("--list-keys", "--with-colons")
        self.fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))
        (folder / "aws-efa-installer").mkdir(parents=True)
        installer = folder / "aws-efa-installer" / "efa_installer.sh"
        installer.write_text(script)
        installer.chmod(0o755)
        with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
            archive.add(installer.parent, "aws-efa-installer")
        self.sign()
        (folder / "aws-efa-installer.key").write_text(self.gpg("--armor", "--export"))

    def gpg(self, *words: str) -> str:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--passphrase", "", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def sign(self) -> None:
        self.gpg("--yes", "--detach-sign", "--output", f"{self.folder / ARCHIVE}.sig", str(self.folder / ARCHIVE))

    @property
    def sha256(self) -> str:
        return hashlib.sha256((self.folder / ARCHIVE).read_bytes()).hexdigest()

    def variables(self, root: Path) -> dict[str, str]:
        """What makes the script install below a root, from no site on the network."""
        return {
            "EFA_KEY_FINGERPRINT": self.fingerprint,
            "EFA_SITE": "http://127.0.0.1:9",
            "EFA_ROOT": str(root),
            "EFA_LOADER": str(root / "efa.conf"),
            "EFA_LISTS": str(root / "lists"),
        }

    @staticmethod
    def tools(folder: Path) -> Path:
        """No root rights here: ldconfig and what it reads are stand-ins, everything else is the build's own."""
        folder.mkdir(exist_ok=True)
        (folder / "ldconfig").write_text("#!/bin/sh\n")
        (folder / "ldconfig").chmod(0o755)
        return folder

    def install(self, root: Path, *, sha256: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        root.mkdir(exist_ok=True)
        tools = self.tools(root.parent / "tools")
        given = {**self.variables(root), **variables}
        return subprocess.run(
            ["bash", str(INSTALL), VERSION, sha256 or self.sha256, str(self.folder)],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", **given},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
