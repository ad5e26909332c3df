"""Whether NCCL can use EFA in this image: its plugin loads, and speaks a version that NCCL asks for.

    check_plugin.py [--nccl libnccl.so.2] [--plugin NAME]

Needs no GPU and no EFA device. Exit code 1 where NCCL would train over TCP without a word. The standard library only.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import re
import sys
from pathlib import Path

SYMBOL = re.compile(rb"ncclNetPlugin_v(\d+)\0")


class PluginError(Exception):
    """NCCL cannot use the plugin."""


def nccl_of_torch() -> Path:
    """The library of the package that torch installs.

    Raises:
        PluginError: No such package.
    """
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        package = None
    for folder in package.submodule_search_locations or () if package else ():
        if (path := Path(folder) / "lib" / "libnccl.so.2").is_file():
            return path
    raise PluginError(
        "no NCCL beside torch (nvidia.nccl). Expected lib/libnccl.so.2 in it. Fix: install torch's CUDA build"
    )


def asked_for(nccl: Path) -> list[int]:
    """Versions of the plugin's interface that a build of NCCL looks up, the newest first: their names are in it.

    Raises:
        PluginError: It looks up none.
    """
    versions = {int(number) for number in SYMBOL.findall(nccl.read_bytes())}
    if not versions:
        raise PluginError(f"{nccl} names no ncclNetPlugin_v*. Expected NCCL 2.5 or newer. Fix: another image set")
    return sorted(versions, reverse=True)


def loads(name: str) -> ctypes.CDLL:
    """A library, with all that it links.

    Raises:
        PluginError: It does not load.
    """
    try:
        return ctypes.CDLL(name, mode=os.RTLD_NOW)
    except OSError as error:
        raise PluginError(
            f"{name} does not load: {error}. Expected libfabric and aws-ofi-nccl on the library path. Fix: install "
            "them with AWS's EFA installer, or correct LD_LIBRARY_PATH"
        ) from None


def spoken(plugin: str, versions: list[int]) -> int:
    """The version that NCCL and the plugin will speak.

    Raises:
        PluginError: The plugin does not load, or has none of them.
    """
    library = loads(plugin)
    for version in versions:
        if hasattr(library, f"ncclNetPlugin_v{version}"):
            return version
    newest = f"ncclNetPlugin_v{versions[0]}"
    raise PluginError(
        f"{plugin} has none of {len(versions)} versions that NCCL asks for. Expected {newest} or older. Fix: another "
        "EFA installer, or another image set"
    )


def main(arguments: list[str] | None = None) -> int:
    """Check; 0 where NCCL finds what it needs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nccl", type=Path, help="NCCL's library (default: torch's)")
    parser.add_argument("--plugin", default=os.environ.get("NCCL_NET_PLUGIN") or "libnccl-net.so")
    options = parser.parse_args(arguments)
    plugin = options.plugin if ".so" in options.plugin else f"libnccl-net-{options.plugin}.so"
    try:
        nccl = options.nccl or nccl_of_torch()
        version = spoken(plugin, asked_for(nccl))
        loads("libfabric.so.1")
    except (PluginError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{plugin} loads, and speaks ncclNetPlugin_v{version} with {nccl}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
