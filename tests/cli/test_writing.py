from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import core
from hyperpod_ray.cli.main import main
from hyperpod_ray.planner import simulate


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has tests of its own."""
    monkeypatch.setattr(simulate, "RUNS", 200)


@pytest.mark.parametrize(
    "config",
    [
        # a model with several kinds of input and experts: by its size alone it would be dense
        {"model_type": "glm4v_moe", "text_config": {
            "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128,
            "num_experts_per_tok": 8, "num_hidden_layers": 46, "num_attention_heads": 96, "vocab_size": 151552,
        }},
        # another shape under a name that the planner knows
        {"_name_or_path": "llama-3.1-70b", "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 128256},
    ],
)  # fmt: skip
def test_write_refuses_a_shape_that_the_file_cannot_hold(
    config: dict[str, Any], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "prod.yaml").read_text(encoding="utf-8")
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    arguments = ("--config", str(file), "--tokens", "1T", "--no-deploy", "--write")
    assert main(["--environments", str(folder), "plan", "prod", *arguments]) == 2
    assert "cannot hold the shape of a config.json" in capsys.readouterr().err
    assert (folder / "prod.yaml").read_text(encoding="utf-8") == before


def test_write_puts_the_run_into_the_file_and_keeps_the_rest(folder: Path) -> None:
    file = folder / "prod.yaml"
    before = file.read_text(encoding="utf-8")
    head = re.split(r"^training:", before, flags=re.MULTILINE)[0]
    for tokens in ("1T", "2T"):
        assert main(["--environments", str(folder), "plan", "prod", "--model", "llama-3.1-70b", "--tokens", tokens,
                     "--no-deploy", "--write"]) == 0  # fmt: skip
        text = file.read_text(encoding="utf-8")
        assert text.count("\ntraining:") == 1
        assert text.startswith(head.rstrip("\n"))
        section = core.load("prod", folder=folder).settings.training
        assert section is not None
        assert section.tokens == tokens
        assert section.save_every_seconds is not None
        assert 2000 < section.save_every_seconds < 11_000
    # and a plan needs no options any more
    assert main(["--environments", str(folder), "plan", "prod", "--no-deploy"]) == 0
