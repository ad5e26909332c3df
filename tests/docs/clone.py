"""A fresh clone of this project as it stands, with the installed environments of this checkout linked in."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperpod_ray_sandbox.aws import paths
from tests.docs.printed import PROJECT

INSTALLED = (".venv", ".venv-emulator", ".venv-rehearsal", "node_modules")
CACHED = (paths.NODE_RUNTIME.name, paths.KUBECTL_LAYER.name)
_GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.invalid", "-c", "commit.gpgsign=false")


def clone(target: Path) -> Path:
    """Copy what git would clone (and what is new here), commit it on `main`, and link what `make setup` installs."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        source, file = PROJECT / name, target / name
        if source.is_symlink() and name not in INSTALLED:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.symlink_to(source.readlink())
            continue
        if not source.is_file() or name.split("/")[0] in INSTALLED:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(source.read_bytes())
        file.chmod(source.stat().st_mode)
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main"], cwd=target, check=True)
    subprocess.run(["git", "add", "--all"], cwd=target, check=True)
    subprocess.run([*_GIT, "commit", "--quiet", "--message", "as it stands"], cwd=target, check=True)
    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", "HEAD"], cwd=target, check=True)
    link(target)
    return target


def link(target: Path) -> None:
    """Link the installed environments of this checkout into a clone, and make them newer than its files."""
    for file in target.rglob("*"):
        if file.is_file() and not file.is_relative_to(target / ".git"):
            os.utime(file, (0, 0))
    for name in INSTALLED:
        (target / name).symlink_to((PROJECT / name).resolve())
    (target / ".cache").mkdir(exist_ok=True)
    for name in CACHED:
        (target / ".cache" / name).symlink_to((PROJECT / ".cache" / name).resolve())
    exclude = target / ".git" / "info" / "exclude"
    exclude.write_text("".join(f"/{name}\n" for name in INSTALLED))


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str


def environ(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """A user's environment in a clone: its commands first, no AWS settings of the machine, a home of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "HYPERPOD_RAY", "KUBECONFIG", "PYTEST", "COV_"))
    }
    programs = (
        folder / ".venv" / "bin",
        folder / ".venv-emulator" / "bin",
        folder / "node_modules" / ".bin",
        paths.KUBECTL_LAYER / "kubectl",
        paths.KUBECTL_LAYER / "helm",
    )
    home = Path(more.get("HOME", folder.parent / "home"))
    home.mkdir(exist_ok=True)
    return {
        **kept,
        "PATH": os.pathsep.join([*map(str, programs), kept.get("PATH", os.defpath)]),
        "PYTHONPATH": f"{folder}",
        "HOME": str(home),
        "COLUMNS": "140",
        "NO_COLOR": "1",
        **more,
    }


def run(
    command: str,
    *,
    folder: Path,
    more: Mapping[str, str],
    answers: Sequence[str] = (),
    forever: bool = False,
    limit_s: float = 900,
) -> Done:
    """Run a command in bash as it is printed; with `answers` or `forever` on a terminal.

    Args:
        command: The text.
        folder: Where it runs.
        more: Environment variables.
        answers: What a user types, one line at each prompt.
        forever: The command ends only by Ctrl-C: it is pressed after the first output.
        limit_s: Seconds until it counts as stuck.
    """
    variables = environ(folder, more)
    if not (answers or forever):
        try:
            done = subprocess.run(
                ["bash", "-ec", command], cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=limit_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            return Done(124, f"{(error.stdout or b'').decode(errors='replace')}\nnot within {limit_s} s")
        return Done(done.returncode, done.stdout)
    return _on_a_terminal(["bash", "-ec", f"exec {command}"], folder, variables, answers, forever, limit_s)


def _on_a_terminal(  # noqa: PLR0917
    words: Iterable[str],
    folder: Path,
    variables: dict[str, str],
    answers: Sequence[str],
    forever: bool,
    limit_s: float,
) -> Done:
    main, side = pty.openpty()
    process = subprocess.Popen(
        list(words), cwd=folder, env=variables, stdin=side, stdout=side, stderr=side, start_new_session=True
    )
    os.close(side)
    end, out, left, pressed = time.monotonic() + limit_s, "", list(answers), False
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([main], [], [], 0.2)
            if ready:
                try:
                    data = os.read(main, 65536)
                except OSError:
                    break
                out += data.decode(errors="replace")
            elif left and out.endswith((": ", "] ")):  # a prompt, and nothing more comes
                os.write(main, f"{left[0]}\n".encode())
                out += "\n"
                left.pop(0)
            if forever and not pressed and out.strip():
                time.sleep(0.5)
                os.killpg(process.pid, signal.SIGINT)
                pressed = True
            if process.poll() is not None and not ready:
                break
        return Done(process.wait(timeout=max(1, end - time.monotonic())), out.replace("\r\n", "\n"))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(main)
