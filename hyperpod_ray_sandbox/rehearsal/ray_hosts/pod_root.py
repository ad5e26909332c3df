"""Runs a command in a root of its own: the machine's folders, with another folder in the place of one of them.

A pod mounts the shared file system at `/fsx`. Here that path shows the cluster's own folder, to the pod alone: nothing
below `/fsx` of the machine is read or written, and the machine needs no such folder. Needs a mount namespace, which
`unshare --mount-proc` has opened. Standard library only, since it starts every pod.

Source: https://man7.org/linux/man-pages/man2/pivot_root.2.html
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_NEW = "/tmp"  # noqa: S108  (only the place where the new root is built, in a namespace of its own)
_OLD = ".machine"
_MS_BIND_RECURSIVE = 0x1000 | 0x4000
_MNT_DETACH = 2
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


def enter(*, shows: str, at: str) -> None:
    """Change to a root that has the folder `shows` at the path `at`, which is directly below `/`.

    Raises:
        OSError: the namespace does not allow it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    # opened while the machine's own root is here; it may lie below a folder that the new root hides
    descriptor = os.open(shows, os.O_PATH | os.O_DIRECTORY)
    working_folder = Path.cwd()

    def call(name: str, *arguments: object) -> None:
        if getattr(libc, name)(*arguments):
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")

    def bind(source: str, target: Path) -> None:
        call("mount", source.encode(), os.fsencode(target), None, ctypes.c_ulong(_MS_BIND_RECURSIVE), None)

    call("mount", b"tmpfs", _NEW.encode(), b"tmpfs", ctypes.c_ulong(0), b"mode=0755")
    machine_root = Path(_NEW, _OLD)
    machine_root.mkdir()
    call("pivot_root", _NEW.encode(), os.fsencode(machine_root))
    os.chdir("/")
    machine = Path("/", _OLD)
    for path in sorted(machine.iterdir()):
        target = Path("/", path.name)
        if str(target) == at:
            continue
        if path.is_symlink():
            target.symlink_to(path.readlink())
        elif path.is_dir():
            target.mkdir()
            bind(str(path), target)
        else:
            target.touch()
            bind(str(path), target)
    Path(at).mkdir()
    bind(f"/proc/self/fd/{descriptor}", Path(at))
    os.close(descriptor)
    call("umount2", os.fsencode(machine), ctypes.c_int(_MNT_DETACH))
    machine.rmdir()
    os.chdir(working_folder)
    # what an ordinary user needed in a namespace of its own to mount; the command has no use for it
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def main(shows: str, at: str, *command: str) -> None:
    """Enter and become the command."""
    try:
        enter(shows=shows, at=at)
    except OSError as error:
        sys.exit(f"{at} of a pod: {error}. Expected a mount namespace of its own. Fix: allow it, or run as root")
    os.execvp(command[0], list(command))  # noqa: S606  (this process becomes it)


if __name__ == "__main__":
    main(*sys.argv[1:])
