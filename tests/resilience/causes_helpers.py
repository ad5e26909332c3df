"""What tests of `flight`, `stragglers` share."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.resilience import waiting_ranks

ROOT = Path(__file__).resolve().parents[2]
WORLD = 3


def of_ranks(scenario: str, folder: Path) -> list[dict[str, Any]]:
    """What real ranks of gloo answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, str(Path(waiting_ranks.__file__)), scenario]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([*command, str(rank), str(WORLD), port, str(folder)], stdout=subprocess.PIPE, env=environment)
        for rank in range(WORLD)
    ]
    answers = [rank.communicate(timeout=600)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * WORLD
    return [json.loads(answer.splitlines()[-1]) for answer in answers]  # torch 2.10 prints before it
