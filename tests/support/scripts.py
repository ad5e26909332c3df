"""The scripts that run as root on nodes and in the image's build, each in the situations that they tell apart."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import records, traced

ON_CREATE = records.PROJECT / "lifecycle" / "on_create.sh"
WITH_PROXY = records.PROJECT / "constructs" / "with_proxy.sh"
INSTALL = records.PROJECT / "hyperpod_ray" / "image" / "efa" / "install.sh"
CLIENT = "etc/eks/configure-efa-fsx-lustre-client/setup.sh"
FINGERPRINT = "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"
ARCHIVE = "aws-efa-installer-1.50.0.tar.gz"
NODE = {
    "sysctl": "",
    "mountpoint": """
case $2 in
*/opt/sagemaker) [[ -n $VOLUME ]] ;;
*/var/lib/containerd) [[ -n $MOVED ]] ;;
*) exit 1 ;;
esac""",
    "systemctl": """
case "$1 $3" in
"is-active kubelet" | "is-active amazon-ssm-agent") exit 0 ;;
is-active*) exit 3 ;;
esac
[[ "$*" != "$BROKEN" ]]""",
    "lnetctl": 'echo "$NIDS"',
    "setup": "",
}  # fmt: skip
REAL = ("mkdir", "cp", "chmod", "dirname", "bash")
NO_NODE = {"VOLUME": "", "MOVED": "", "BROKEN": "", "NIDS": ""}


def answers(situations: Iterable[tuple[str, dict[str, str]]]) -> records.Record:
    """Situation to everything that the script does in it."""
    return {
        situation: {key: records.text_of(line) for key, line in traced.lines(entry).items()}
        for situation, entry in situations
    }


def difference(room: str) -> str:
    """The empty text where the script of a room of the tests does what its record holds; else what changed."""
    return records.difference(file_of(room), answers(ROOMS[room]()))


def file_of(room: str) -> Path:
    """The record of the script that a room of the tests looks at."""
    return records.PROJECT / "tests" / room / "records" / "script.txt"


def _folder(files: Mapping[str, str]) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="machine-")
    for name, text in files.items():
        place = Path(folder.name, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder


def on_create() -> Iterator[tuple[str, dict[str, str]]]:
    """The script of every node, on machines that differ in volumes, file systems, steps, and in what fails."""
    images = {"var/lib/containerd/pause-image": "of the AMI"}
    efa = {"scripts/efa-file-system": "Lustre uses EFA\n"}
    situations: dict[str, tuple[dict[str, str], dict[str, str]]] = {
        "plain": ({}, {}),
        "a data volume": ({}, {"VOLUME": "1"}),
        "images moved before": ({}, {"VOLUME": "1", "MOVED": "1"}),
        "a stop of containerd that fails": ({}, {"VOLUME": "1", "BROKEN": "stop containerd"}),
        "a start of containerd that fails": ({}, {"VOLUME": "1", "BROKEN": "start containerd"}),
        "EFA without a client": (efa, {}),
        "EFA": ({**efa, CLIENT: "echo set-up\n"}, {"NIDS": "nid: 192.0.2.1@efa"}),
        "EFA whose set-up fails": ({**efa, CLIENT: "exit 7\n"}, {"NIDS": "nid: 192.0.2.1@efa"}),
        "EFA without an interface": ({**efa, CLIENT: ":\n"}, {"NIDS": "nid: 192.0.2.1@tcp"}),
        "a step of one's own": ({"scripts/after_create.sh": "echo own step\n"}, {}),
        "a step of one's own that fails": ({"scripts/after_create.sh": "exit 9\n"}, {}),
    }
    script = {"scripts/on_create.sh": ON_CREATE.read_text(encoding="utf-8")}
    for title, (files, variables) in situations.items():
        with _folder({**script, **images, **files}) as name:
            folder = Path(name)
            entry = traced.trace(
                folder / "scripts" / "on_create.sh", folder=folder, played=NODE, real=REAL, quiet=("grep",),
                variables={**NO_NODE, **variables},
            )  # fmt: skip
            yield title, _without(entry, "file scripts/on_create.sh")


def with_proxy() -> Iterator[tuple[str, dict[str, str]]]:
    """The script that comes first behind a proxy."""
    files = {
        "scripts/with_proxy.sh": WITH_PROXY.read_text(encoding="utf-8"),
        "scripts/proxy.env": "HTTPS_PROXY=http://proxy.example.com:3128\n",
        "scripts/then-run": "next.sh\n",
        "scripts/next.sh": '#!/bin/bash\necho "next with $HTTPS_PROXY"\n',
    }
    for title, broken in (("plain", ""), ("a restart that fails", "restart kubelet"), ("no reload", "daemon-reload")):
        with _folder(files) as name:
            folder = Path(name)
            entry = traced.trace(
                folder / "scripts" / "with_proxy.sh", folder=folder, played=NODE, real=REAL, quiet=("grep",),
                variables={**NO_NODE, "BROKEN": broken},
            )  # fmt: skip
            yield title, _without(entry, "file scripts/with_proxy.sh")


_INSTALLER = """#!/bin/bash
echo "installer $*"
mkdir -p "$EFA_ROOT/efa/lib" "$EFA_ROOT/ofi/lib"
[[ -n $BARE ]] || printf '' >"$EFA_ROOT/efa/lib/libfabric.so.1"
[[ -n $BARE ]] || printf '' >"$EFA_ROOT/ofi/lib/libnccl-net-ofi.so"
[[ -z $NAMED ]] || printf '' >"$EFA_ROOT/ofi/lib/libnccl-net.so"
"""
_IMAGE = {
    "gpg": f'[[ $* == *--verify* ]] && echo "[GNUPG:] VALIDSIG 1 2 ${{SIGNED:-{FINGERPRINT}}}"; exit ${{GPG:-0}}',
    "apt-get": 'echo "apt-get $*"; [[ $1 == install && -e $DIR/tools/gpg.later ]] && mv "$DIR/tools/gpg.later" '
    '"$DIR/tools/gpg"; exit ${APT:-0}',
    "ldconfig": "",
    "python3": 'shift 2; [[ -n $NO_WAY ]] && exit 1; echo "downloaded $1" >"$2"',
}
_COREUTILS = ("mktemp", "rm", "cp", "sha256sum", "mkdir", "grep", "tar", "find", "ln", "mv")


def install() -> Iterator[tuple[str, dict[str, str]]]:
    """The image's installer of EFA, with what is at hand, signed, there or not."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        member = tarfile.TarInfo("aws-efa-installer/efa_installer.sh")
        member.mode, member.size = 0o755, len(_INSTALLER)
        packed.addfile(member, io.BytesIO(_INSTALLER.encode()))
    sha256 = hashlib.sha256(archive.getvalue()).hexdigest()
    whole = (ARCHIVE, f"{ARCHIVE}.sig", "aws-efa-installer.key")
    situations: dict[str, dict[str, Any]] = {
        "plain": {},
        "nothing at hand": {"files": whole[:1]},
        "no way to what is missing": {"files": whole[:2], "NO_WAY": "1"},
        "another archive": {"sha256": "0" * 64},
        "another key": {"SIGNED": "1" * 40},
        "a key whose end is another": {"SIGNED": f"{FINGERPRINT} {'1' * 40}"},
        "a signature that gpg refuses": {"GPG": "1", "SIGNED": "nobody"},
        "gpg to install": {"missing": ("gpg",)},
        "no index of packages": {"APT": "100"},
        "a site of one's own": {"EFA_SITE": "https://mirror.example.com", "APT": "100"},
        "no plugin in it": {"BARE": "1"},
        "a plugin with NCCL's name": {"NAMED": "1"},
    }
    for title, situation in situations.items():
        files, missing = situation.pop("files", whole), situation.pop("missing", ())
        with _folder({f"wheels/{file}": file for file in files} | {"image/efa/lists/index": "old"}) as name:
            folder = Path(name)
            (folder / "wheels" / ARCHIVE).write_bytes(archive.getvalue())
            variables = {
                "EFA_ROOT": f"{folder}/image", "EFA_LOADER": f"{folder}/efa.conf",
                "EFA_LISTS": f"{folder}/image/efa/lists", **dict.fromkeys(("NO_WAY", "BARE", "NAMED"), ""),
            }  # fmt: skip
            entry = traced.trace(
                INSTALL, folder=folder, arguments=("1.50.0", situation.pop("sha256", sha256), f"{folder}/wheels"),
                played=_IMAGE, real=_COREUTILS, quiet=("sort", "gzip", "bash"), missing=missing,
                variables={**variables, **situation},
            )  # fmt: skip
            entry = {key: re.sub(r"\$DIR/tmp\.\w+", "$WORK", text) for key, text in entry.items()}
            yield (
                f"install.sh: {title}",
                {key: text for key, text in entry.items() if not key.startswith("file wheels")},
            )


def _without(entry: dict[str, str], key: str) -> dict[str, str]:
    return {name: text for name, text in entry.items() if name != key}


ROOMS = {"lifecycle": on_create, "constructs": with_proxy, "image": install}
"""Which room of the tests looks at which script."""
