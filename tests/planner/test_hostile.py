"""Hostile inputs to `plan` from the command line: each is refused in place, or answered right; none hangs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from tests.planner.test_input import _ends  # noqa: F401  (a case that hangs fails

RUN = ("--model", "llama-3.1-8b", "--tokens", "1T")
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
}  # fmt: skip


def plan(*arguments: str) -> int:
    options = [word for pair in zip(RUN[::2], RUN[1::2], strict=True) if pair[0] not in arguments for word in pair]
    if "--config" in arguments or "--params" in arguments:
        options = [word for word in options if word not in ("--model", "llama-3.1-8b")]
    return main(["plan", "prod", *options, "--no-deploy", *arguments])


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("--tokens", "1_000T"), "--tokens"),
    (("--tokens", "１T"), "--tokens"),  # a full-width digit
    (("--tokens", "٣T"), "--tokens"),  # an Arabic digit
    (("--tokens", "0x10T"), "--tokens"),
    (("--tokens", "1e3T"), "--tokens"),
    (("--tokens", "1T1T"), "--tokens"),
    (("--tokens", "1,5T"), "--tokens"),
    (("--tokens", "∞"), "--tokens"),
    (("--tokens", "1T\nmodel: x"), "--tokens"),
    (("--tokens", ""), "--tokens: nothing"),
    (("--params", "8B;9B"), "--params"),
    (("--params", "1B" * 5000), "--params"),
    (("--sequence", "8192.5"), "--sequence"),
    (("--parallel", ""), "--parallel: nothing"),
    (("--team", ""), "--team: nothing"),
    (("--sequence", "8_192_000"), "--sequence"),
    (("--keep", "-1"), "--keep"),
    (("--batch-tokens", "4M8"), "--batch-tokens"),
    (("--parallel", "tp=8 cp=2"), "--parallel"),
    (("--parallel", "TP=8"), "--parallel"),
    (("--parallel", "tp=०८"), "--parallel"),
    (("--parallel", "tp=8," * 4000), "--parallel"),
    (("--parallel", "pp=64,vp=64"), "32 layers"),
    (("--parallel", "cp=64,tp=64,pp=64"), "64"),
    (("--storage", "4800@"), "--storage"),
    (("--storage", "-4800@1000"), "--storage"),
    (("--storage", "nan@nan"), "--storage"),
    (("--node-price", "1e-300"), "--node-price"),
    (("--node-price", "nan"), "--node-price"),
    (("--tokens-per-second", "1e-320"), "--tokens-per-second"),
    (("--lora-rank", "99999999999999999999"), "--lora-rank"),
    (("--model", "../../etc/passwd"), "model"),
    (("--compare", "../prod"), "../prod"),
    (("--failures", "/dev/null"), "--failures"),
    (("--config", "/dev/zero"), "--config"),
    (("--config", "/"), "--config"),
    (("--from-run", "/dev/null"), "--from-run"),
    (("--rehearsal", "/proc/self/mem"), "--rehearsal"),
]


@pytest.mark.parametrize(("arguments", "word"), REFUSED, ids=[" ".join(args)[:40] for args, _ in REFUSED])
def test_it_is_refused_where_it_stands(
    arguments: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert word in output.err
    assert "Traceback" not in output.err
    assert "internal error" not in output.err
    assert len(output.err) < 1500


@pytest.mark.parametrize("option", ["--config", "--from-run", "--failures", "--rehearsal"])
def test_a_pipe_that_nobody_writes_to_is_refused(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert plan(option, str(pipe)) == 2
    assert f"{option} {pipe}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--config", "--from-run", "--failures", "--rehearsal"])
def test_a_loop_of_links_is_refused(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert plan(option, str(loop)) == 2
    assert option in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[" * 100_000, "--config"),
        ('{"hidden_size": 1' + "0" * 5000 + "}", "--config"),
        ("\ufeff" + json.dumps(LLAMA), "--config"),
        (json.dumps(LLAMA)[:-1], "--config"),
        (json.dumps({**LLAMA, "num_hidden_layers": [32, 31]}), "num_hidden_layers"),
        (json.dumps({**LLAMA, "num_hidden_layers": [True]}), "num_hidden_layers"),
        (json.dumps({**LLAMA, "text_config": {"hidden_size": -1}}), "hidden_size"),
        (json.dumps({**LLAMA, "layer_types": ["full_attention", 7, None]}), "layers"),
        (json.dumps({**LLAMA, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 0}), "moe_inter"),
        (json.dumps({**LLAMA, "compress_ratios": [0, 4, 128]}), "compressed keys"),
        (json.dumps({**LLAMA, "num_kv_shared_layers": 15}), "keys that layers share"),
    ],
)
def test_a_hostile_configuration_is_refused_at_its_key(
    text: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    assert plan("--config", str(file)) == 2
    error = capsys.readouterr().err
    assert word in error
    assert "Traceback" not in error


def answers(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert plan(*arguments, "-o", "json") == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_name_with_a_terminal_escape_is_not_echoed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "_name_or_path": "a\u001b]0;owned\u0007\u202eb"}), encoding="utf-8")
    assert plan("--config", str(file)) == 0
    output = capsys.readouterr()
    assert "\u001b]0;" not in output.out + output.err
    assert "\u202e" not in output.out + output.err


def test_a_key_that_is_given_twice_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON takes the last one, as transformers does."""
    file = tmp_path / "config.json"
    text = json.dumps(LLAMA)
    file.write_text(f'{text[:-1]}, "vocab_size": 128256}}', encoding="utf-8")
    twice = answers(capsys, "--config", str(file))
    file.write_text(text, encoding="utf-8")
    assert twice["answers"] == answers(capsys, "--config", str(file))["answers"]


def test_the_order_of_a_split_does_not_matter(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (answers(capsys, "--parallel", text) for text in ("tp=8,pp=2", "pp=2,tp=8"))
    assert one["answers"] == other["answers"]


def test_a_run_of_one_step_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert answers(capsys, "--tokens", "4M", "--batch-tokens", "4M")["answers"]
