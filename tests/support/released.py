"""Assemblies that released versions synthesized from their own environment files, as `cdk synth` wrote them.

`tests/sandbox/released/VERSION-ENV.tar.xz` has the templates, manifests and, of `local`, the uploaded folders. Layers
of tens of megabytes are not kept: an empty archive stands in, as the sandbox runs kubectl and helm of its own.
"""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path

ARCHIVES = Path(__file__).parents[1] / "sandbox" / "released"


def assembly(version: str, name: str, folder: Path) -> Path:
    """Unpack the assembly of an environment into a folder."""
    with tarfile.open(ARCHIVES / f"{version}-{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    for manifest in folder.rglob("*.assets.json"):
        for asset in json.loads(manifest.read_text())["files"].values():
            path = manifest.parent / asset["source"]["path"]
            if path.suffix == ".zip" and not path.exists():
                with zipfile.ZipFile(path, "w") as empty:
                    empty.writestr("empty", "")
    return folder
