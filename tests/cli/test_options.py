from __future__ import annotations

import shlex
import subprocess

from hyperpod_ray.cli.options import epilog


def test_a_folded_example_is_one_command_for_a_shell() -> None:
    line = 'ray-job prod --name train --entrypoint "python train.py --epochs 3" --queue research --priority high --wait'
    shown = epilog([line]).partition("Examples:\n")[2]
    assert "\\\n" in shown and '"python train.py --epochs 3"' in shown
    words = shown.strip().removeprefix("hyperpod-ray")
    printed = subprocess.run(["sh", "-c", f"printf '%s\\n' {words}"], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == shlex.split(line)
