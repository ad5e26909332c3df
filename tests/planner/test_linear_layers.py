from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.planner import (
    PlanError,
    hugging_face,
    memory,
)
from tests.planner.pipeline_helpers import GRANITE, NEMOTRON_H, written

JAMBA = {
    "model_type": "jamba", "architectures": ["JambaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536,
    "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1,
    "num_experts": 16, "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_dt_rank": 256, "mamba_conv_bias": True, "tie_word_embeddings": False,
}  # fmt: skip


QWEN3_NEXT = {
    "model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "num_hidden_layers": 48,
    "hidden_size": 2048, "intermediate_size": 5120, "num_attention_heads": 16, "num_key_value_heads": 2,
    "head_dim": 256, "vocab_size": 151936, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_key_head_dim": 128, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "parameters", "active", "layers"),
    [
        # published: 51.6B and 12B; 8.1B; 79.7B without the extra prediction head, and 3.9B; 32.2B and 9B
        (JAMBA, 51_570_323_328, 12.1e9, (28, 4)),
        (NEMOTRON_H, 8_100_852_736, 8.1e9, (24, 4)),
        (QWEN3_NEXT, 79_674_391_296, 3.87e9, (36, 12)),
        (GRANITE, 32_207_337_984, 8.8e9, (36, 4)),
    ],
    ids=["jamba", "nemotron-h", "qwen3-next", "granite-4-h-small"],
)
def test_a_hybrid_counts_its_published_parameters(
    tmp_path: Path, config: dict[str, Any], parameters: int, active: float, layers: tuple[int, int]
) -> None:
    model = hugging_face.architecture(written(tmp_path, config))
    assert model.parameters == parameters
    assert model.active == pytest.approx(active, rel=0.005)
    assert model.hybrid is not None
    assert (model.hybrid.linear, model.hybrid.attention) == layers


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "falcon_h1"}, "attention beside Mamba-2"),
        ({"model_type": "zamba2"}, "layers share"),
        ({"model_type": "kimi_linear"}, "Kimi Delta Attention"),
        ({"layer_types": ["mamba", "conv"] * 20}, "conv"),
        ({"layer_types": ["mamba"] * 39}, "39 layers are listed, num_hidden_layers is 40"),
        ({"mamba_n_heads": None, "mamba_d_state": None}, "layers that are not attention"),
        ({"mamba_d_state": None}, "no mamba_d_state"),
        ({"mamba_d_state": "many"}, "mamba_d_state"),
        ({"attn_type_list": [0, 1] * 20, "layer_types": None}, "lightning"),
        ({"hybrid_override_pattern": "MX" * 20}, "hybrid_override_pattern: X"),
    ],
)
def test_what_a_file_does_not_say_is_refused_by_name(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        hugging_face.architecture(written(tmp_path, {**GRANITE, **change}))


def test_a_list_of_ordinary_attention_is_no_hybrid(tmp_path: Path) -> None:
    config = {key: value for key, value in GRANITE.items() if not key.startswith("mamba_")}
    model = hugging_face.architecture(written(tmp_path, {**config, "layer_types": None, "attn_type_list": [1] * 40}))
    assert model.hybrid is None


def test_long_sequences_cost_a_hybrid_less_than_a_model_that_attends_everywhere(tmp_path: Path) -> None:
    model = hugging_face.architecture(written(tmp_path, NEMOTRON_H))
    whole = replace(model, hybrid=None)
    assert model.attention_flop(8192) == pytest.approx(whole.attention_flop(8192) * 4 / 52)
    assert model.flop_per_token(8192) > 6 * (model.parameters - model.root)
    kept = [memory.kept_by_layers(shape) for shape in (model, whole)]
    assert 0 < kept[0] < kept[1]
