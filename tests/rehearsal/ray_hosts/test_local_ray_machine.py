from __future__ import annotations

import stat
from pathlib import Path

from hyperpod_ray_sandbox.rehearsal.ray_hosts import machine


def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    machine.write_secret(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_text()
    machine.write_secret(path)
    assert len(first) == 64
    assert path.read_text() != first
