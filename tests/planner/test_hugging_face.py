"""Models of 2025 and 2026, as their config.json gives them, judged by the totals that their makers publish.

The planner knows none of these names. Makers round, and count active parameters without embeddings.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.planner import PlanError, architecture, hugging_face

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
    # ByteDance-Seed/Seed-OSS-36B-Base
    "seed-oss-36b": (
        {
            "architectures": ["SeedOssForCausalLM"],
            "model_type": "seed_oss",
            "attention_bias": True,
            "attention_out_bias": False,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 5120,
            "intermediate_size": 27648,
            "num_attention_heads": 80,
            "num_hidden_layers": 64,
            "num_key_value_heads": 8,
            "tie_word_embeddings": False,
            "vocab_size": 155136,
            "mlp_bias": False,
        },
        36.15,
        None,
    ),
    # swiss-ai/Apertus-8B-2509
    "apertus-8b": (
        {
            "architectures": ["ApertusForCausalLM"],
            "model_type": "apertus",
            "attention_bias": False,
            "hidden_act": "xielu",
            "hidden_size": 4096,
            "intermediate_size": 21504,
            "mlp_bias": False,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "qk_norm": True,
            "tie_word_embeddings": False,
            "vocab_size": 131072,
            "post_norm": False,
        },
        8.05,
        None,
    ),
    # Qwen/Qwen3.5-397B-A17B, text part
    "qwen3.5-397b": (
        {
            "architectures": ["Qwen3_5MoeForConditionalGeneration"],
            "model_type": "qwen3_5_moe",
            "text_config": {
                "model_type": "qwen3_5_moe_text",
                "attention_bias": False,
                "attn_output_gate": True,
                "full_attention_interval": 4,
                "head_dim": 256,
                "hidden_act": "silu",
                "hidden_size": 4096,
                "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 15,
                "linear_conv_kernel_dim": 4,
                "linear_key_head_dim": 128,
                "linear_num_key_heads": 16,
                "linear_num_value_heads": 64,
                "linear_value_head_dim": 128,
                "moe_intermediate_size": 1024,
                "mtp_num_hidden_layers": 1,
                "num_attention_heads": 32,
                "num_experts": 512,
                "num_experts_per_tok": 10,
                "num_hidden_layers": 60,
                "num_key_value_heads": 2,
                "shared_expert_intermediate_size": 1024,
                "vocab_size": 248320,
            },
            "vision_config": {
                "hidden_size": 1152,
                "depth": 27,
            },
            "tie_word_embeddings": False,
        },
        397,
        17,
    ),
    # xai-org/grok-2: a dense layer beside the experts of each layer
    "grok-2": (
        {
            "architectures": ["Grok1ForCausalLM"],
            "model_type": "git",
            "hidden_size": 8192,
            "intermediate_size": 32768,
            "moe_intermediate_size": 16384,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "residual_moe": True,
            "num_hidden_layers": 64,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 131072,
        },
        270,
        115,
    ),
    # stepfun-ai/Step-3.5-Flash: layers with experts are listed in a text
    "step-3.5-flash": (
        {
            "architectures": ["Step3p5ForCausalLM"],
            "model_type": "step3p5",
            "hidden_size": 4096,
            "intermediate_size": 11264,
            "num_attention_heads": 64,
            "num_attention_groups": 8,
            "head_dim": 128,
            "num_hidden_layers": 45,
            "vocab_size": 128896,
            "moe_intermediate_size": 1280,
            "moe_num_experts": 288,
            "moe_top_k": 8,
            "share_expert_dim": 1280,
            "moe_layers_enum": ",".join(str(layer) for layer in range(3, 45)),
            "sliding_window": 512,
            "layer_types": (["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"] * 12)[
                :45
            ],
            "attention_other_setting": {
                "num_attention_heads": 96,
            },
            "use_head_wise_attn_gate": True,
        },
        196,
        11,
    ),
    # inclusionAI/Ling-1T
    "ling-1t": (
        {
            "architectures": ["BailingMoeV2ForCausalLM"],
            "model_type": "bailing_moe",
            "hidden_size": 8192,
            "intermediate_size": 18432,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "moe_intermediate_size": 2048,
            "moe_shared_expert_intermediate_size": 2048,
            "num_experts": 256,
            "num_shared_experts": 1,
            "num_experts_per_tok": 8,
            "first_k_dense_replace": 4,
            "vocab_size": 157184,
            "use_qk_norm": True,
            "use_bias": False,
            "tie_word_embeddings": False,
            "hidden_act": "silu",
            "num_nextn_predict_layers": 0,
        },
        1000,
        50,
    ),
    # XiaomiMiMo/MiMo-V2-Flash
    "mimo-v2-flash": (
        {
            "architectures": ["MiMoV2FlashForCausalLM"],
            "model_type": "mimo_v2_flash",
            "hidden_size": 4096,
            "num_hidden_layers": 48,
            "num_attention_heads": 64,
            "num_key_value_heads": 4,
            "head_dim": 192,
            "v_head_dim": 128,
            "swa_num_attention_heads": 64,
            "swa_num_key_value_heads": 8,
            "swa_head_dim": 192,
            "swa_v_head_dim": 128,
            "intermediate_size": 16384,
            "moe_intermediate_size": 2048,
            "n_routed_experts": 256,
            "n_shared_experts": None,
            "num_experts_per_tok": 8,
            "hybrid_layer_pattern": [0, 1, 1, 1, 1, 1] * 8,
            "sliding_window": 128,
            "sliding_window_size": 128,
            "vocab_size": 152576,
            "moe_layer_freq": [0, *[1] * 47],
            "hidden_act": "silu",
            "tie_word_embeddings": False,
        },
        309,
        15,
    ),
    # nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B
    "nemotron3-nano": (
        {
            "architectures": ["NemotronHForCausalLM"],
            "model_type": "nemotron_h",
            "hidden_size": 2688,
            "num_hidden_layers": 52,
            "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
            "num_attention_heads": 32,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "intermediate_size": 1856,
            "moe_intermediate_size": 1856,
            "moe_shared_expert_intermediate_size": 3712,
            "n_routed_experts": 128,
            "n_shared_experts": 1,
            "num_experts_per_tok": 6,
            "mamba_num_heads": 64,
            "mamba_head_dim": 64,
            "ssm_state_size": 128,
            "n_groups": 8,
            "conv_kernel": 4,
            "mlp_hidden_act": "relu2",
            "vocab_size": 131072,
            "tie_word_embeddings": False,
        },
        31.6,
        3.6,
    ),
    # HuggingFaceTB/SmolLM3-3B
    "smollm3": (
        {
            "architectures": ["SmolLM3ForCausalLM"],
            "model_type": "smollm3",
            "attention_bias": False,
            "hidden_act": "silu",
            "hidden_size": 2048,
            "intermediate_size": 11008,
            "layer_types": ["full_attention"] * 36,
            "no_rope_layers": [
                1,
                1,
                1,
                0,
                1,
                1,
                1,
                0,
                1,
                1,
                1,
                0,
                1,
                1,
                1,
                0,
                1,
                1,
                1,
                0,
                1,
                1,
                1,
                0,
                1,
                1,
                1,
                0,
                1,
                1,
                1,
                0,
                1,
                1,
                1,
                0,
            ],
            "num_attention_heads": 16,
            "num_hidden_layers": 36,
            "num_key_value_heads": 4,
            "use_sliding_window": False,
            "vocab_size": 128256,
            "tie_word_embeddings": True,
        },
        3.075,
        None,
    ),
    # arcee-ai/AFM-4.5B
    "arcee": (
        {
            "architectures": ["ArceeForCausalLM"],
            "model_type": "arcee",
            "hidden_size": 2560,
            "intermediate_size": 18432,
            "num_hidden_layers": 36,
            "num_attention_heads": 20,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "hidden_act": "relu2",
            "vocab_size": 128004,
            "tie_word_embeddings": False,
        },
        4.62,
        None,
    ),
    # rednote-hilab/dots.llm1.base
    "dots1": (
        {
            "architectures": ["Dots1ForCausalLM"],
            "model_type": "dots1",
            "hidden_size": 4096,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "num_hidden_layers": 62,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "n_routed_experts": 128,
            "num_experts_per_tok": 6,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
            "vocab_size": 152064,
            "tie_word_embeddings": False,
            "hidden_act": "silu",
        },
        142,
        14,
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


def test_keys_of_a_shape_that_nothing_counts_are_named(file: Path) -> None:
    """Sliding layers of MiMo have other heads; a key that nobody knows yet is named too."""
    file.write_text(json.dumps(PUBLISHED["mimo-v2-flash"][0]), encoding="utf-8")
    model = hugging_face.architecture(file)
    assert "not counted: " in model.assumed
    assert "swa_num_key_value_heads" in model.assumed
    assert (model.window, model.full_layers) == (128, 8)
    file.write_text(json.dumps({**PUBLISHED["qwen3-32b"][0], "second_mlp_size": 25600}), encoding="utf-8")
    assert "not counted: second_mlp_size" in hugging_face.architecture(file).assumed


@pytest.mark.parametrize("name", sorted(PUBLISHED.keys() - {"mimo-v2-flash", "step-3.5-flash"}))
def test_a_file_whose_shape_is_counted_whole_has_no_such_note(name: str, file: Path) -> None:
    file.write_text(json.dumps(PUBLISHED[name][0]), encoding="utf-8")
    assert "not counted" not in hugging_face.architecture(file).assumed


def test_an_activation_that_nobody_knows_is_named(file: Path) -> None:
    file.write_text(json.dumps({**PUBLISHED["qwen3-32b"][0], "hidden_act": "swooshl"}), encoding="utf-8")
    assert "activation swooshl is taken as one with a gate" in hugging_face.architecture(file).assumed


def test_layers_with_a_window_may_be_letters(file: Path) -> None:
    """EXAONE 4.0: `LLLG`, three of four layers with a window."""
    config = {**PUBLISHED["qwen3-32b"][0], "sliding_window": 4096, "sliding_window_pattern": "LLLG"}
    file.write_text(json.dumps({**config, "use_sliding_window": True}), encoding="utf-8")
    model = hugging_face.architecture(file)
    assert (model.window, model.full_layers, model.layers) == (4096, 16, 64)


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
        # ByteDance/Ouro-1.4B: four times the arithmetic of its layers
        ({"model_type": "ouro", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
          "total_ut_steps": 4, "intermediate_size": 5632, "vocab_size": 49152},
         "layers that run several times"),
        # meituan-longcat/LongCat-Flash: 560B, counted as ordinary layers it would have 3,250B
        ({"model_type": "longcat_flash", "hidden_size": 6144, "ffn_hidden_size": 12288, "num_layers": 28,
          "moe_topk": 12, "expert_ffn_hidden_size": 2048, "num_attention_heads": 64, "n_routed_experts": 512,
          "zero_expert_num": 256, "vocab_size": 131072},
         "experts that compute nothing"),
        # google/gemma-4-26B-A4B
        ({"model_type": "gemma4", "text_config": {"hidden_size": 2816, "intermediate_size": 2112, "num_experts": 128,
          "moe_intermediate_size": 704, "top_k_experts": 8, "enable_moe_block": True, "num_hidden_layers": 30,
          "num_attention_heads": 16, "head_dim": 256, "global_head_dim": 512, "vocab_size": 262144}},
         "a dense layer beside experts"),
        # Snowflake/snowflake-arctic-base
        ({"model_type": "arctic", "hidden_size": 7168, "intermediate_size": 4864, "num_hidden_layers": 35,
          "num_attention_heads": 56, "num_local_experts": 128, "num_experts_per_tok": 2, "parallel_attn_mlp_res": True,
          "vocab_size": 32000},
         "a dense layer beside experts"),
        # nvidia/Llama-3_3-Nemotron-Super-49B
        ({"model_type": "nemotron-nas", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
          "vocab_size": 128256, "block_configs": [{"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}}]},
         "layers of different shapes"),
        # stepfun-ai/step3: 321B, counted as ordinary attention it would have 353B
        ({"model_type": "step3_vl", "text_config": {"hidden_size": 7168, "intermediate_size": 18432,
          "num_attention_heads": 64, "num_attention_groups": 1, "num_hidden_layers": 61, "vocab_size": 128815,
          "moe_intermediate_size": 5120, "moe_num_experts": 48, "moe_top_k": 3, "share_q_dim": 2048}},
         "queries of a shared rank"),
        ({"model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27, "num_attention_heads": 32,
          "vocab_size": 163840}, "Kimi Delta Attention"),
    ],
)  # fmt: skip
def test_a_shape_that_no_formula_counts_is_refused_by_its_name(config: dict[str, Any], words: str, file: Path) -> None:
    file.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(PlanError, match=words):
        hugging_face.architecture(file)


def test_qwen_3_5_projects_its_queries_twice_and_has_gated_shared_experts(file: Path) -> None:
    """`attn_output_gate`: as many columns again in its 15 layers that attend; and a gate of each shared expert."""
    config = PUBLISHED["qwen3.5-397b"][0]
    file.write_text(json.dumps(config), encoding="utf-8")
    model = hugging_face.architecture(file)
    text = {**config["text_config"], "attn_output_gate": False}
    file.write_text(json.dumps({**config, "text_config": text}), encoding="utf-8")
    plain = hugging_face.architecture(file)
    assert model.parameters - plain.parameters == 15 * 4096 * 32 * 256
    assert model.hybrid is not None
    assert model.hybrid.norms == 2 * 60 + 60


CONFIGS: dict[str, tuple[dict[str, Any], float, float]] = {
    # config.json as published on Hugging Face (keys that count); parameters and active ones as published, in billions
    "mixtral-8x7b": (
        {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
         "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
         "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None, "tie_word_embeddings": False,
         "vocab_size": 32000}, 46.7, 12.9),
    "qwen3-30b-a3b": (
        {"model_type": "qwen3_moe", "attention_bias": False, "decoder_sparse_step": 1, "head_dim": 128,
         "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144, "mlp_only_layers": [],
         "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
         "num_hidden_layers": 48, "num_key_value_heads": 4, "sliding_window": None, "tie_word_embeddings": False,
         "use_sliding_window": False, "vocab_size": 151936}, 30.5, 3.3),
    "deepseek-v3": (
        {"model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
         "intermediate_size": 18432, "kv_lora_rank": 512, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
         "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8,
         "num_hidden_layers": 61, "num_key_value_heads": 128, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "tie_word_embeddings": False, "v_head_dim": 128, "vocab_size": 129280}, 671, 37),
    "llama-4-scout": (
        {"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"], "text_config": {
            "model_type": "llama4_text", "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
            "interleave_moe_layer_step": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
            "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
            "num_local_experts": 16, "tie_word_embeddings": False, "vocab_size": 202048},
         "vision_config": {"hidden_size": 1408}}, 107.8, 17.2),
    "llama-4-maverick": (
        {"model_type": "llama4", "text_config": {
            "model_type": "llama4_text", "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
            "interleave_moe_layer_step": 2, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
            "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
            "num_local_experts": 128, "tie_word_embeddings": False, "vocab_size": 202048}}, 400, 17.2),
    "gpt-oss-20b": (
        {"model_type": "gpt_oss", "attention_bias": True, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu",
         "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64, "num_experts_per_tok": 4,
         "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32, "sliding_window": 128,
         "layer_types": ["sliding_attention", "full_attention"] * 12, "tie_word_embeddings": False,
         "vocab_size": 201088}, 20.9, 4.2),
    "gemma-2-9b": (
        {"model_type": "gemma2", "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3584,
         "intermediate_size": 14336, "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8,
         "sliding_window": 4096, "sliding_window_pattern": 2, "vocab_size": 256000}, 9.24, 9.24),
    "qwen2.5-7b": (
        {"model_type": "qwen2", "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
         "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072,
         "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 152064}, 7.6156, 7.6156),
    "gpt2": (
        {"model_type": "gpt2", "activation_function": "gelu_new", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
         "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}, 0.1244, 0.1244),
    "mpt-7b": (
        {"model_type": "mpt", "d_model": 4096, "expansion_ratio": 4, "n_heads": 32, "n_layers": 32, "no_bias": True,
         "vocab_size": 50432}, 6.65, 6.65),
    "falcon-7b": (
        {"model_type": "falcon", "bias": False, "hidden_size": 4544, "multi_query": True,
         "new_decoder_architecture": False, "num_attention_heads": 71, "num_hidden_layers": 32,
         "vocab_size": 65024}, 6.92, 6.92),
    "a-family-of-tomorrow": (
        {"model_type": "nobody_knows_it", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
         "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256},
        8.03, 8.03),
}  # fmt: skip


@pytest.fixture
def config_file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIGS[request.param][0]), encoding="utf-8")
    return file


@pytest.mark.parametrize(("config_file", "name"), [(name, name) for name in CONFIGS], indirect=["config_file"])
def test_a_configuration_counts_its_published_parameters(config_file: Path, name: str) -> None:
    _, total, active = CONFIGS[name]
    model = hugging_face.architecture(config_file)
    assert model.parameters / 1e9 == pytest.approx(total, rel=0.005)
    assert model.active / 1e9 == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize(
    ("config_file", "name"),
    [(name, name) for name in ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "llama-4-maverick", "gpt-oss-20b")],
    indirect=["config_file"],
)
def test_a_file_is_the_model_of_the_same_name(config_file: Path, name: str) -> None:
    """But for what the file does not say: its source and, of images, that they are not counted."""
    read, listed = hugging_face.architecture(config_file), architecture.named(name)
    # a width that no layer uses says nothing
    feeds = (read.feed, listed.feed) if listed.dense_layers else (0, 0)
    read, listed = (
        replace(model, name="", source="", assumed="", feed=feed)
        for model, feed in zip((read, listed), feeds, strict=True)
    )
    assert read == listed
