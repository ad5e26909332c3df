"""What a shell script does: every command that it runs, in order, and every file that it leaves."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LONGEST_S = 60


def trace(
    script: Path,
    *,
    folder: Path,
    arguments: Sequence[str] = (),
    played: Mapping[str, str],
    real: Sequence[str],
    quiet: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
) -> dict[str, str]:
    """Run a script in a folder that plays the machine.

    Args:
        script: The script, copied beside nothing: what it reads beside itself is there already.
        folder: The machine's root; `$DIR` in what comes back.
        arguments: The script's own.
        played: Command to the body that stands in for it.
        real: Commands that run as they are; they are written down as well. No other command is there.
        quiet: Commands that run as they are, and are not written down: parts of a pipe begin in any order.
        variables: Environment.
        missing: Commands of `played` that are not there at first: another command's body brings them with `bring`.
    """
    tools, calls = folder / "tools", folder / "calls"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir(parents=True)
    calls.write_text("")
    for name in ("bash-itself", *quiet):
        (tools / name).symlink_to(shutil.which(name.removesuffix("-itself")) or name)
    bodies = {**{name: f'exec {shutil.which(name)} "$@"' for name in real}, **played}
    for name, body in bodies.items():
        place = tools / f"{name}.later" if name in missing else tools / name
        place.write_text(f'#!{shutil.which("bash")}\necho "{name} $*" >>{calls}\n{body}\n')
        place.chmod(0o755)
    done = subprocess.run(
        [str(tools / "bash-itself"), str(script), *arguments],
        env={"PATH": str(tools), "ROOT": str(folder), "DIR": str(folder), "TMPDIR": str(folder), **(variables or {})},
        cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST_S, umask=0o022,
    )  # fmt: skip
    shutil.rmtree(tools)
    entry = {
        "exit code": str(done.returncode),
        "calls": calls.read_text(),
        "stdout": done.stdout,
        "stderr": done.stderr,
    }
    calls.unlink()
    for file in sorted(folder.rglob("*")):
        key = f"file {file.relative_to(folder)}"
        if file.is_symlink():
            entry[key] = f"→ {file.readlink()}"
        elif file.is_file():
            entry[key] = f"{stat.filemode(file.stat().st_mode)} {file.read_text(errors='replace')}"
    # a line more in a comment changes nothing of what it does
    return {key: re.sub(r"in line \d+", "in line N", text.replace(str(folder), "$DIR")) for key, text in entry.items()}


def lines(entry: Mapping[str, str]) -> dict[str, str]:
    """An entry with each line of its texts as a property, as `tests/support/records.py` compares them."""
    return {
        f"{key}, {number:02}": line
        for key, text in entry.items()
        for number, line in enumerate(text.splitlines() or [""], 1)
    }
