"""Which folders have a kube-controller-manager: envtest's archives have none, and Kubernetes' own releases have one."""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray_sandbox.api_server_folder import has_controllers


def test_a_program_that_runs_counts_and_nothing_else_of_its_name(tmp_path: Path) -> None:
    assert not has_controllers(tmp_path)
    program = tmp_path / "kube-controller-manager"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o644)
    assert not has_controllers(tmp_path), "a file that nobody may run starts no controller"
    program.chmod(0o755)
    assert has_controllers(tmp_path)
    assert not has_controllers(tmp_path / "nowhere")
