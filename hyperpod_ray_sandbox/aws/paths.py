"""Where the embedded AWS keeps what it installs and what it runs.

In a checkout of this project: `.venv-emulator`, `.cache` and `.local/aws` there. As an installed distribution it keeps
its tools in the user's cache, and runs in the environment that it is installed in where that has MiniStack.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent
"""The folder that holds the package `sandbox`, and what it imports beside it."""
REQUIREMENTS = PACKAGE / "requirements.txt"
INSTALLED = not (ROOT / "pyproject.toml").exists()
"""Whether this is an installed distribution, not a checkout."""
_TOOLS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperpod-sandbox"
CACHE = _TOOLS if INSTALLED else ROOT / ".cache"
COMPLETE = INSTALLED and importlib.util.find_spec("ministack") is not None
"""Whether the server runs in this environment, as with the extra `server`. Beside the product it has an environment of
its own, because MiniStack pins an older botocore than the product needs."""
_APART = _TOOLS / "venv" if INSTALLED else ROOT / ".venv-emulator"
VENV = Path(sys.prefix) if COMPLETE else _APART
PYTHON = Path(sys.executable) if COMPLETE else VENV / "bin" / "python"
NODE_PACKAGES = PACKAGE / "aws" / "node"
BEFORE_CDK = NODE_PACKAGES / "before_cdk.cjs"
"""What Node.js loads before the cdk CLI, which does the same with it in less time."""
NODE_RUNTIME = CACHE / "lambda-node"
KUBECTL_LAYER = CACHE / "kubectl-v35"
STATE = (Path.cwd() if INSTALLED else ROOT) / ".local" / "aws"
COMMAND = "hyperpod-sandbox" if INSTALLED else "hyperpod-ray local"
"""The command that starts and stops it."""


def command(verb: str, state: Path) -> str:
    """A command of the sandbox as it is typed for a state folder."""
    chosen = "" if state.resolve() == STATE.resolve() else f" --state {shlex.quote(str(state))}"
    return f"{COMMAND} {verb}{chosen}"


def imports() -> Path:
    """The folder from which the server's environment imports the sandbox: its packages, and nothing beside them."""
    if not INSTALLED or COMPLETE:
        return ROOT
    folder = _TOOLS / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    for name in (PACKAGE.name, "hyperpod_ray_rules"):
        link = folder / name
        if not link.is_symlink() or link.resolve() != (ROOT / name).resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(ROOT / name)
    return folder


def entrypoint_program() -> list[str]:
    """The command that runs a RayJob's entrypoint on a real Ray; empty where the rehearsal's environment is missing."""
    if INSTALLED or not (ROOT / ".venv-rehearsal" / "bin" / "ray").exists():
        return []
    return [sys.executable, "-m", "hyperpod_ray_sandbox.rehearsal.ray_jobs"]
