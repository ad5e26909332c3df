from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.planner import (
    architecture,
    fitting,
    memory,
    speed,
)
from hyperpod_ray.planner import published as published_rows
from hyperpod_ray.planner.architecture import Architecture
from hyperpod_ray.planner.speed import Setting
from tests.planner.pipeline_helpers import GRANITE, notes, outlook, written


def on_h100(model: Architecture, **more: Any) -> Setting:
    return Setting(model=model, gpu="H100", gpus=64, sequence=4096, **more)


@pytest.mark.parametrize(("choice", "less"), [("selective", "none"), ("full", "selective")])
def test_recomputation_saves_memory(choice: memory.Recompute, less: memory.Recompute) -> None:
    model = architecture.named("llama-3.1-8b")
    fits = [memory.fit(model, gpu="H100", world=64, tokens=8192, recompute=each) for each in (choice, less)]
    assert fits[0].total < fits[1].total
    speeds = [speed.steps(on_h100(model, recompute=each)).central for each in (choice, less)]
    assert speeds[0] <= speeds[1]


def test_lora_needs_no_state_of_the_frozen_model_and_less_time() -> None:
    model = architecture.named("llama-3.1-70b")
    full = memory.parts(model, world=8, tokens=4096, recompute="full")
    lora = memory.parts(model, world=8, tokens=4096, recompute="full", lora_rank=16)
    assert lora["weights"] == pytest.approx(2 * 70.55e9 / 8 / 2**30, rel=0.01)
    assert lora["optimizer"] < full["optimizer"] / 100
    assert lora["gradients in reduction"] == 0
    assert memory.checkpoint_bytes(model, lora_rank=16) < 3e9
    # NVIDIA, NeMo 24.07: LoRA of Llama 2 7B to 70B is 1.39 to 1.47 times as fast as full fine-tuning
    for name in ("llama-2-7b", "llama-2-13b", "llama-2-70b"):
        at = on_h100(architecture.named(name), precision="fp8", stack="megatron")
        assert 1.35 < speed.steps(replace(at, lora=True)).central / speed.steps(at).central < 1.5


def test_fp8_speeds_up_matrix_products_and_not_attention() -> None:
    """torchtitan: Float8 is 1.28 times as fast at 8,192 tokens; at long sequences attention is what takes the time."""
    model = architecture.named("llama-3.1-8b")
    gains = []
    for sequence in (8192, 262_144):
        at = Setting(model=model, gpu="H100", gpus=64, sequence=sequence)
        gains.append(speed.steps(replace(at, precision="fp8")).central / speed.steps(at).central)
    assert 1.2 < gains[0] < 1.35
    assert 1.0 < gains[1] < 1.1


def test_no_prediction_is_above_the_dense_rate() -> None:
    for name in ("llama-3.2-1b", "llama-3.1-8b", "llama-3.1-405b", "qwen3-30b-a3b", "deepseek-v3"):
        for gpu in speed.GENERATIONS:
            at = Setting(model=architecture.named(name), gpu=gpu, gpus=64, sequence=8192)
            assert speed.steps(at).high * at.model.flop_per_token(8192) < at.rate, (name, gpu)


def test_speed_falls_by_the_bubble_alone() -> None:
    setting = outlook(parallel="pp=8").setting
    assert speed.steps(setting).central == pytest.approx(
        speed.steps(replace(setting, micro_batches=float("inf"))).central * setting.busy
    )
    assert setting.busy < 0.95
    assert outlook(parallel="pp=8", batch_tokens="40M").setting.busy > setting.busy


def test_traffic_between_stages_by_hand() -> None:
    """Each token crosses twice in bf16: 16,384 bytes for a width of 4,096; a GPU has its share in both stages."""
    setting = outlook(parallel="pp=2").setting
    assert speed.stage_traffic(setting, per_node=8) == 4 * 4096 * 2
    assert speed.stage_traffic(outlook().setting, per_node=8) == 0
    # stages of four GPUs: every other boundary is inside a node
    assert speed.stage_traffic(replace(setting, gpus=8), per_node=8) == 4 * 4096 * 2 / 2


def test_traffic_between_stages_as_megatron_measured() -> None:
    """arXiv 2104.04473, 5.9: 892 GB/s between the stages of the model of 1T on 3,072 GPUs, interleaved, one direction.

    Each GPU sends its share of the activations to its own partner. The paper does not say how many parts a stage has;
    two are the fewest that interleave.
    """
    row = published_rows.rows()["megatron21-1t"]
    split = replace(row.parallel, virtual=2)
    setting = replace(fitting.setting(row), parallel=split)
    one_direction = speed.stage_traffic(setting, per_node=8) / 2 * row.speed * 3072
    assert one_direction == pytest.approx(892e9, rel=0.6)
    assert speed.stage_traffic(setting, per_node=8) * row.speed * 3072 == pytest.approx(892e9, rel=0.15)


def test_a_hybrid_is_planned_with_a_wider_range(tmp_path: Path) -> None:
    look = outlook(model="", config=written(tmp_path, GRANITE), parallel="ep=8")
    assert look.setting.likeness.endswith("/hybrid")
    assert "carried over" in speed.support(look.setting)
    assert "36 layers are Mamba-2" in notes(look)


def test_one_stage_a_node_exchanges_no_weights() -> None:
    setting = outlook(parallel="pp=8", batch_tokens="4194304").setting
    assert setting.gpus == 64
    assert speed.sharded_traffic(setting, per_node=8) == 0
    assert speed.sharded_traffic(setting, per_node=4) > 0
