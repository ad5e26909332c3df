"""Models of 2025 and 2026, as their config.json gives them, judged by the totals that their makers publish.

The planner knows none of these names. Makers round, and count active parameters without embeddings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.planner import PlanError, hugging_face

PUBLISHED: dict[str, tuple[dict[str, Any], float, float | None]] = {
    # Qwen/Qwen3-32B
    "qwen3-32b": (
        {
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": False,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 5120,
            "intermediate_size": 25600,
            "max_window_layers": 64,
            "model_type": "qwen3",
            "num_attention_heads": 64,
            "num_hidden_layers": 64,
            "num_key_value_heads": 8,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "use_sliding_window": False,
            "vocab_size": 151936,
        },
        32.762,
        None,
    ),
    # google/gemma-3-27b-pt, text part
    "gemma-3-27b": (
        {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "mm_tokens_per_image": 256,
            "text_config": {
                "head_dim": 128,
                "hidden_size": 5376,
                "intermediate_size": 21504,
                "model_type": "gemma3_text",
                "num_attention_heads": 32,
                "num_hidden_layers": 62,
                "num_key_value_heads": 16,
                "sliding_window": 1024,
                "sliding_window_pattern": 6,
                "vocab_size": 262208,
                "hidden_activation": "gelu_pytorch_tanh",
            },
            "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
        },
        27.009,
        None,
    ),
    # zai-org/GLM-4.5-Air
    "glm-4.5-air": (
        {
            "architectures": ["Glm4MoeForCausalLM"],
            "attention_bias": True,
            "first_k_dense_replace": 1,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 4096,
            "intermediate_size": 10944,
            "model_type": "glm4_moe",
            "moe_intermediate_size": 1408,
            "n_routed_experts": 128,
            "n_shared_experts": 1,
            "num_attention_heads": 96,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 46,
            "num_key_value_heads": 8,
            "num_nextn_predict_layers": 1,
            "tie_word_embeddings": False,
            "use_qk_norm": False,
            "vocab_size": 151552,
        },
        106,
        12,
    ),
    # zai-org/GLM-4.5
    "glm-4.5": (
        {
            "architectures": ["Glm4MoeForCausalLM"],
            "attention_bias": True,
            "first_k_dense_replace": 3,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 5120,
            "intermediate_size": 12288,
            "model_type": "glm4_moe",
            "moe_intermediate_size": 1536,
            "n_routed_experts": 160,
            "n_shared_experts": 1,
            "num_attention_heads": 96,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 92,
            "num_key_value_heads": 8,
            "num_nextn_predict_layers": 1,
            "tie_word_embeddings": False,
            "use_qk_norm": True,
            "vocab_size": 151552,
        },
        355,
        32,
    ),
    # MiniMaxAI/MiniMax-M2
    "minimax-m2": (
        {
            "architectures": ["MiniMaxM2ForCausalLM"],
            "model_type": "minimax_m2",
            "attn_type_list": [1] * 62,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 3072,
            "intermediate_size": 1536,
            "num_attention_heads": 48,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 62,
            "num_key_value_heads": 8,
            "num_local_experts": 256,
            "shared_intermediate_size": 0,
            "tie_word_embeddings": False,
            "use_qk_norm": True,
            "vocab_size": 200064,
            "num_mtp_modules": 3,
        },
        230,
        10,
    ),
    # mistralai/Mistral-Small-3.1-24B-Base-2503, text part
    "mistral-small-3.1": (
        {
            "architectures": ["Mistral3ForConditionalGeneration"],
            "model_type": "mistral3",
            "text_config": {
                "head_dim": 128,
                "hidden_act": "silu",
                "hidden_size": 5120,
                "intermediate_size": 32768,
                "model_type": "mistral",
                "num_attention_heads": 32,
                "num_hidden_layers": 40,
                "num_key_value_heads": 8,
                "sliding_window": None,
                "vocab_size": 131072,
            },
            "vision_config": {"hidden_size": 1024},
        },
        23.57,
        None,
    ),
    # allenai/Olmo-3-1125-32B
    "olmo-3-32b": (
        {
            "architectures": ["Olmo3ForCausalLM"],
            "model_type": "olmo3",
            "hidden_act": "silu",
            "hidden_size": 5120,
            "intermediate_size": 27648,
            "num_attention_heads": 40,
            "num_hidden_layers": 64,
            "num_key_value_heads": 8,
            "sliding_window": 4096,
            "layer_types": ([*["sliding_attention"] * 3, "full_attention"]) * 16,
            "tie_word_embeddings": False,
            "vocab_size": 100278,
        },
        32.23,
        None,
    ),
    # tencent/Hunyuan-A13B-Instruct
    "hunyuan-a13b": (
        {
            "architectures": ["HunYuanMoEV1ForCausalLM"],
            "model_type": "hunyuan_v1_moe",
            "attention_head_dim": 128,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 4096,
            "intermediate_size": 3072,
            "moe_intermediate_size": [3072] * 32,
            "moe_topk": [8] * 32,
            "num_attention_heads": 32,
            "num_experts": 64,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "num_shared_expert": [1] * 32,
            "tie_word_embeddings": True,
            "use_qk_norm": True,
            "vocab_size": 128167,
        },
        80.4,
        13,
    ),
    # baidu/ERNIE-4.5-21B-A3B-PT
    "ernie-4.5-21b": (
        {
            "architectures": ["Ernie4_5_MoeForCausalLM"],
            "model_type": "ernie4_5_moe",
            "hidden_act": "silu",
            "hidden_size": 2560,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
            "moe_num_experts": 64,
            "moe_num_shared_experts": 2,
            "moe_k": 6,
            "moe_layer_start_index": 1,
            "moe_layer_interval": 1,
            "num_attention_heads": 20,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
            "use_bias": False,
            "vocab_size": 103424,
        },
        21.8,
        3,
    ),
    # zai-org/GLM-5
    "glm-5": (
        {
            "architectures": ["GlmMoeDsaForCausalLM"],
            "model_type": "glm_moe_dsa",
            "first_k_dense_replace": 3,
            "hidden_act": "silu",
            "hidden_size": 6144,
            "intermediate_size": 12288,
            "kv_lora_rank": 512,
            "q_lora_rank": 2048,
            "qk_nope_head_dim": 192,
            "qk_rope_head_dim": 64,
            "v_head_dim": 256,
            "moe_intermediate_size": 2048,
            "n_routed_experts": 256,
            "n_shared_experts": 1,
            "num_attention_heads": 64,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 78,
            "num_key_value_heads": 64,
            "index_n_heads": 32,
            "index_head_dim": 128,
            "index_topk": 2048,
            "vocab_size": 154880,
            "tie_word_embeddings": False,
        },
        744,
        40,
    ),
    # microsoft/phi-4
    "phi-4": (
        {
            "architectures": ["Phi3ForCausalLM"],
            "model_type": "phi3",
            "hidden_act": "silu",
            "hidden_size": 5120,
            "intermediate_size": 17920,
            "num_attention_heads": 40,
            "num_hidden_layers": 40,
            "num_key_value_heads": 10,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "vocab_size": 100352,
        },
        14.66,
        None,
    ),
    # moonshotai/Kimi-K2-Base
    "kimi-k2": (
        {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "kimi_k2",
            "first_k_dense_replace": 1,
            "hidden_act": "silu",
            "hidden_size": 7168,
            "intermediate_size": 18432,
            "kv_lora_rank": 512,
            "moe_intermediate_size": 2048,
            "moe_layer_freq": 1,
            "n_routed_experts": 384,
            "n_shared_experts": 1,
            "num_attention_heads": 64,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 61,
            "num_key_value_heads": 64,
            "q_lora_rank": 1536,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "tie_word_embeddings": False,
            "v_head_dim": 128,
            "vocab_size": 163840,
        },
        1026,
        32,
    ),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.json"


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_the_maker_publishes(name: str, file: Path) -> None:
    config, total, active = PUBLISHED[name]
    file.write_text(json.dumps(config), encoding="utf-8")
    model = hugging_face.architecture(file)
    assert model.parameters / 1e9 == pytest.approx(total, rel=0.01)
    if active:
        embeddings = model.embedding * (1 if model.tied else 2)
        assert (model.active - embeddings) / 1e9 <= 1.03 * active
        assert model.active / 1e9 >= 0.97 * active


def test_gemma_3_attends_to_everything_in_every_sixth_layer(file: Path) -> None:
    file.write_text(json.dumps(PUBLISHED["gemma-3-27b"][0]), encoding="utf-8")
    model = hugging_face.architecture(file)
    assert (model.window, model.full_layers, model.layers) == (1024, 10, 62)
    assert "only the text part" in model.assumed


def test_sparse_attention_is_named_as_counted_in_full(file: Path) -> None:
    file.write_text(json.dumps({**PUBLISHED["glm-5"][0]}), encoding="utf-8")
    assert "makes sparse is counted in full" in hugging_face.architecture(file).assumed


@pytest.mark.parametrize(
    ("config", "words"),
    [
        # deepseek-ai/DeepSeek-V4-Flash: 284B, 13B active; counted as ordinary attention it would have 20B active
        ({"model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 43, "num_attention_heads": 64,
          "num_key_value_heads": 1, "head_dim": 512, "q_lora_rank": 1024, "o_lora_rank": 1024, "vocab_size": 129280,
          "compress_ratios": [0, 0, 4, 128], "n_routed_experts": 256, "num_experts_per_tok": 6,
          "moe_intermediate_size": 2048}, "attention to compressed keys"),
        # google/gemma-3n-E4B: 8B with embeddings of each layer, 4B without
        ({"model_type": "gemma3n", "text_config": {"hidden_size": 2048, "intermediate_size": [16384] * 35,
          "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
          "vocab_size": 262400, "hidden_size_per_layer_input": 256, "altup_num_inputs": 4}},
         "embeddings of each layer"),
        ({"model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27, "num_attention_heads": 32,
          "vocab_size": 163840}, "Kimi Delta Attention"),
    ],
)  # fmt: skip
def test_a_shape_that_no_formula_counts_is_refused_by_its_name(config: dict[str, Any], words: str, file: Path) -> None:
    file.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(PlanError, match=words):
        hugging_face.architecture(file)
