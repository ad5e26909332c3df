from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from hyperpod_ray_sandbox.aws import install, paths
from hyperpod_ray_sandbox.aws.emulator import hooks


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (SimpleNamespace(), "is missing"),
        (SimpleNamespace(name=3), "is not callable"),
        (SimpleNamespace(name=lambda _a: None), "does not take 2 arguments"),
        (SimpleNamespace(name=lambda _a, _b: None), ""),
    ],
)
def test_a_private_name_is_checked_before_it_is_used(module: SimpleNamespace, problem: str) -> None:
    assert hooks._problem(module, "name", 2) == problem


def test_without_ministack_one_line_says_what_to_run() -> None:
    with pytest.raises(hooks.HookError, match="hyperpod-ray local setup"):
        hooks.load()


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("sabotage", "said"),
    [
        ("import ministack.services.eks as e; del e._cluster_endpoint", "eks._cluster_endpoint is missing"),
        ("import ministack.services.ecr as e; e._put_image = lambda: None", "_put_image does not take 1 arguments"),
        ("from hyperpod_ray_sandbox.aws.emulator import hooks; hooks.PINNED = '1.5.34'", "Expected 1.5.34, exactly"),
    ],
)  # fmt: skip
def test_another_ministack_is_refused_in_one_line(sabotage: str, said: str) -> None:
    if not install.installed():
        install.install(lambda _text: None)
    program = f"{sabotage}\nfrom hyperpod_ray_sandbox.aws.emulator.server import main\n"
    program += "raise SystemExit(main(['--port', '1']))"
    done = subprocess.run(
        [str(paths.PYTHON), "-c", program], cwd=paths.ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("embedded AWS:")]
    assert len(lines) == 1
    assert said in lines[0]
