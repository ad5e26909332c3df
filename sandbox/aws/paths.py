"""Where the embedded AWS keeps what it installs (`.venv-emulator`, `.cache`) and what it runs (`.local/aws`)."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-emulator"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements-emulator.txt"
NODE_PACKAGES = ROOT / "sandbox" / "aws" / "node"
NODE_RUNTIME = ROOT / ".cache" / "lambda-node"
KUBECTL_LAYER = ROOT / ".cache" / "kubectl-v35"
STATE = ROOT / ".local" / "aws"
