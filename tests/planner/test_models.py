"""Models by their configuration file, and ways of training beyond dense ones: shapes, arithmetic and memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hyperpod_ray.planner import architecture, memory


def test_a_sliding_window_costs_less_attention() -> None:
    """By hand: 128 of 8,192 tokens in half of the layers; a window as long as the sequence changes nothing."""
    model = architecture.named("gpt-oss-20b")
    whole = replace(model, window=0, full_layers=0)
    seen = 128 - 128 * 128 / (2 * 8192)
    assert model.attention_flop(8192) / whole.attention_flop(8192) == pytest.approx(0.5 + 0.5 * seen / 4096)
    assert replace(model, window=8192).attention_flop(8192) == pytest.approx(whole.attention_flop(8192))


# --- mixtures of experts ----------------------------------------------------------------------------------------------


def test_experts_cost_memory_by_their_total_and_time_by_their_active_parameters() -> None:
    model = architecture.named("qwen3-30b-a3b")
    state = memory.parts(model, world=64, tokens=4096, recompute="full")
    assert state["optimizer"] == pytest.approx(8 * 30.532e9 / 64 / 2**30, rel=1e-3)
    assert model.flop_per_token(4096) < 6 * 4.2e9  # of 3.3 B active and the head


# --- splitting --------------------------------------------------------------------------------------------------------


# --- LoRA -------------------------------------------------------------------------------------------------------------


def test_adapters_are_counted_by_hand() -> None:
    """Llama 3.1 8B, rank 16 on q, k, v, o, gate, up and down: 41.9 M, as peft prints."""
    assert memory.adapter_parameters(architecture.named("llama-3.1-8b"), 16) == 41_943_040


# --- precision and software -------------------------------------------------------------------------------------------
