from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main as run

PROJECT = Path(__file__).resolve().parents[2]


def test_charts_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "charts.lock.yaml"
    lock.write_text(
        "folder: charts\ncharts:\n  op:\n    chart: op\n    version: 1.0.0\n"
        "    source: {repository: 'https://example.invalid'}\n    sha256:\n"
    )
    assert run(["charts", "verify", "--lock", str(lock)]) == 2
    said = capsys.readouterr()
    assert said.out.startswith("missing    op 1.0.0")
    assert "run `hyperpod-ray charts fetch`" in said.err
    assert run(["charts", "verify", "--lock", str(tmp_path / "none.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_charts_commands_start_no_node() -> None:
    # cdk8s starts Node.js when imported: not for a command that only looks at files
    code = "import sys; from hyperpod_ray.cli.main import main; main(['charts', 'verify']); "
    code += "sys.exit(1 if {'jsii', 'cdk8s', 'aws_cdk'} & sys.modules.keys() else 0)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0
