"""Ranks of one machine that share their imports: `python -P forked_ranks.py RANKS SCRIPT ARGUMENTS`.

As torchrun starts them, with its variables, but forked from a process that has imported what the script imports.
Imports are several seconds a process, more than a short run computes. Exit code: the first of a rank that is not 0.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
AUTOGROUP = Path("/proc/self/autogroup")
"""The share of a session where the kernel divides the processor among sessions first: `nice` counts within one alone.
https://man7.org/linux/man-pages/man7/sched.7.html"""
BEHIND = "2"
ADDRESS = "127.0.0.1"


def stand_behind() -> None:
    """Leave the processor to other sessions: what is measured beside this one must not take longer for it.

    In a session of its own alone: another one, a terminal's say, would keep the lower share.
    """
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(BEHIND)


def import_as(script: Path) -> None:
    """Import what a script imports at its top, and what it takes from there: a package may import that only then."""
    imports: list[ast.stmt] = [
        node for node in ast.parse(script.read_bytes()).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    exec(compile(ast.Module(imports, type_ignores=[]), str(script), "exec"), {})  # noqa: S102 - it will run anyway


def run_rank(rank: int, *, ranks: int, script: Path, arguments: Sequence[str], port: int) -> None:
    """What a rank does; it ends with the process that forked it."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
    os.environ |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    # the store is the first process's, as under torchrun
    os.environ |= {"MASTER_ADDR": ADDRESS, "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")


def fork_rank(rank: int, *, ranks: int, script: Path, arguments: Sequence[str]) -> tuple[int, int]:
    """A rank that waits for the store's port; its process and where to write that."""
    port_out, port_in = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(port_out)
        return pid, port_in
    code = 1
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(port_in)
        port = os.read(port_out, 16)
        if port and os.getppid() == parent:
            run_rank(rank, ranks=ranks, script=script, arguments=arguments, port=int(port))
            code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def main(arguments: Sequence[str]) -> int:
    """Import, fork the ranks, and wait for them."""
    stand_behind()
    ranks, script = int(arguments[0]), Path(arguments[1]).resolve()
    sys.path.insert(0, str(script.parent))
    import_as(script)
    # before the store, whose thread a fork would not copy
    started = [fork_rank(rank, ranks=ranks, script=script, arguments=arguments[2:]) for rank in range(ranks)]
    from torch.distributed import TCPStore

    store = TCPStore(ADDRESS, 0, is_master=True, wait_for_workers=False)
    for _, port_in in started:
        os.write(port_in, str(store.port).encode())
        os.close(port_in)
    pids = {pid for pid, _ in started}
    while pids:
        pid, status = os.wait()
        pids.discard(pid)
        if code := os.waitstatus_to_exitcode(status):
            for other in pids:
                os.kill(other, signal.SIGKILL)
            return code if code > 0 else 128 - code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
