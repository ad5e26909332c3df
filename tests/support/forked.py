"""The command in a process of its own, forked from one that has imported it: a tenth of a new interpreter's time.

What an interpreter reads when it starts, such as its encoding, is the parent's: test that with a new interpreter.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LIMIT_S = 600
IMPORTED = (
    "boto3", "botocore.client", "hyperpod_ray.cli.main", "hyperpod_ray.core.loader", "hyperpod_ray.core.new_file",
    "hyperpod_ray.core.reference", "hyperpod_ray.core.upgrade", "hyperpod_ray.ops.money.cost",
    "hyperpod_ray.ops.status", "hyperpod_ray.planner.checks", "hyperpod_ray.review.review",
    "rich.console", "rich.table",
)  # fmt: skip


def command(*words: str, cwd: Path = PROJECT, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `hyperpod-ray WORDS` without input."""
    with tempfile.TemporaryDirectory(prefix="forked-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {
            "words": words, "cwd": str(cwd), "env": env or dict(os.environ), "out": str(out), "err": str(err),
        }  # fmt: skip
        server = _server()
        assert server.stdin and server.stdout
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(words, code, out.read_bytes(), err.read_bytes())


def text(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    """The same with text."""
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@functools.cache
def _server() -> subprocess.Popen[str]:
    """The process that forks; it ends when its input does."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.forked"],
        cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin
    atexit.register(server.wait)
    atexit.register(server.stdin.close)
    return server


def serve() -> None:
    """Fork once for each line of input, and print the exit code."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(*, words: list[str], cwd: str, env: dict[str, str], out: str, err: str) -> None:
    """Be the command; this never returns."""
    from hyperpod_ray.cli.__main__ import start

    code = 70
    try:
        signal.alarm(LIMIT_S)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        time.tzset()
        for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
            os.dup2(os.open(path, flags | os.O_CREAT, 0o600), number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        sys.argv = ["hyperpod-ray", *words]
        start()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
