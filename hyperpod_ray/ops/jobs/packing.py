"""Folders as zip files, as Ray takes them."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import zipfile
from pathlib import Path

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach.jobs_api import Package

PACKAGE_LIMIT_MIB = 500
"""Ray's own limit of a working directory."""
SKIPPED = {".git", ".venv", "node_modules", names.LEFT_BY_TOOLS[0], ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def pack(folder: Path, *, inside: bool = False) -> Package:
    """A folder as a zip file, called by its content as Ray calls them. What git ignores stays out.

    Args:
        folder: What is packed.
        inside: Keep the folder itself in the zip file, as a Python package needs it.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files_of(folder):
            # a fixed time: the same content is the same package
            name = path.relative_to(folder.parent if inside else folder).as_posix()
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = (path.stat().st_mode & 0o777) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    data = buffer.getvalue()
    if len(data) > PACKAGE_LIMIT_MIB * 2**20:
        raise OpsError(
            f"{folder} packs to {len(data) >> 20} MiB",
            expected=f"at most {PACKAGE_LIMIT_MIB}, which Ray takes",
            fix=f"put data on {names.MOUNT_PATH}, and what is not needed into .gitignore",
        )
    return f"_ray_pkg_{hashlib.sha256(data).hexdigest()[:16]}.zip", data


def files_of(folder: Path) -> list[Path]:
    """Files of a folder that belong to it: what git tracks or does not ignore; without git, all but caches."""
    listed = None
    if shutil.which("git"):
        listed = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            capture_output=True,
            check=False,
        )
    else:
        output.log(f"git is not installed: {folder} is packed without .gitignore")
    if listed is not None and listed.returncode == 0:
        found = [folder / name for name in listed.stdout.decode().split("\0") if name]
    else:
        found = [path for path in folder.rglob("*") if not SKIPPED & set(path.relative_to(folder).parts)]
    return sorted(path for path in set(found) if path.is_file())
