"""Where the embedded AWS keeps what it installs and what it runs.

In a checkout of this project: `.venv-emulator`, `.cache` and `.local/aws` there. As an installed distribution it runs
in the environment that it is installed in, and keeps its tools in the user's cache.
"""

from __future__ import annotations

import os
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
VENV = Path(sys.prefix) if INSTALLED else ROOT / ".venv-emulator"
PYTHON = Path(sys.executable) if INSTALLED else VENV / "bin" / "python"
NODE_PACKAGES = PACKAGE / "aws" / "node"
NODE_RUNTIME = CACHE / "lambda-node"
KUBECTL_LAYER = CACHE / "kubectl-v35"
STATE = (Path.cwd() if INSTALLED else ROOT) / ".local" / "aws"
COMMAND = "hyperpod-sandbox" if INSTALLED else "hyperpod-ray local"
"""The command that starts and stops it."""
