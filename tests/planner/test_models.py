"""Models by their configuration file, and ways of training beyond dense ones: shapes, arithmetic and memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.planner import architecture, hugging_face, memory, parallel, speed
from hyperpod_ray.planner.architecture import Architecture
from hyperpod_ray.planner.parallel import Parallel
from hyperpod_ray.planner.speed import Setting


def on_h100(model: Architecture, **more: Any) -> Setting:
    return Setting(model=model, gpu="H100", gpus=64, sequence=4096, **more)


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
def written(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIGS[request.param][0]), encoding="utf-8")
    return file


@pytest.mark.parametrize(("written", "name"), [(name, name) for name in CONFIGS], indirect=["written"])
def test_a_configuration_counts_its_published_parameters(written: Path, name: str) -> None:
    _, total, active = CONFIGS[name]
    model = hugging_face.architecture(written)
    assert model.parameters / 1e9 == pytest.approx(total, rel=0.005)
    assert model.active / 1e9 == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize(
    ("written", "name"),
    [(name, name) for name in ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "llama-4-maverick", "gpt-oss-20b")],
    indirect=["written"],
)
def test_a_file_is_the_model_of_the_same_name(written: Path, name: str) -> None:
    """But for what the file does not say: its source and, of images, that they are not counted."""
    read, listed = hugging_face.architecture(written), architecture.named(name)
    # a width that no layer uses says nothing
    feeds = (read.feed, listed.feed) if listed.dense_layers else (0, 0)
    read, listed = (
        replace(model, name="", source="", assumed="", feed=feed)
        for model, feed in zip((read, listed), feeds, strict=True)
    )
    assert read == listed


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


def test_expert_parallelism_gathers_fewer_experts() -> None:
    model = architecture.named("qwen3-30b-a3b")
    alone, eight = (
        memory.parts(model, world=64, tokens=4096, recompute="full", parallel=Parallel(expert=degree))
        for degree in (1, 8)
    )
    experts = 128 * 3 * 2048 * 768
    assert alone["gathered layers"] - eight["gathered layers"] == pytest.approx(2 * 2 * experts * 7 / 8 / 2**30)
    assert alone["optimizer"] == eight["optimizer"]
    assert alone["activations"] == eight["activations"]


# --- splitting --------------------------------------------------------------------------------------------------------


def test_splits_share_what_they_split() -> None:
    model = architecture.named("llama-3.1-70b")
    alone = memory.parts(model, world=64, tokens=32768, recompute="full")
    context = memory.parts(model, world=64, tokens=32768, recompute="full", parallel=Parallel(context=4))
    tensor = memory.parts(model, world=64, tokens=32768, recompute="full", parallel=Parallel(tensor=8))
    for name in ("activations", "logits"):
        assert context[name] == pytest.approx(alone[name] / 4)
    assert tensor["logits"] == pytest.approx(alone["logits"] / 8)
    assert tensor["gathered layers"] == pytest.approx(alone["gathered layers"] / 8)
    assert alone["activations"] / 8 < tensor["activations"] < alone["activations"]  # and buffers over its ranks
    assert alone["optimizer"] == context["optimizer"] == tensor["optimizer"]


def test_a_long_sequence_fits_with_context_parallelism_only() -> None:
    model = architecture.named("llama-3.1-8b")
    alone, split = (
        memory.fit(model, gpu="H100", world=64, tokens=131072, parallel=parallel.parse(text)) for text in ("", "cp=8")
    )
    assert (alone.verdict, split.verdict) == ("no", "yes")


@pytest.mark.parametrize(("choice", "less"), [("selective", "none"), ("full", "selective")])
def test_recomputation_saves_memory(choice: memory.Recompute, less: memory.Recompute) -> None:
    model = architecture.named("llama-3.1-8b")
    fits = [memory.fit(model, gpu="H100", world=64, tokens=8192, recompute=each) for each in (choice, less)]
    assert fits[0].total < fits[1].total
    speeds = [speed.steps(on_h100(model, recompute=each)).central for each in (choice, less)]
    assert speeds[0] <= speeds[1]


# --- LoRA -------------------------------------------------------------------------------------------------------------


def test_adapters_are_counted_by_hand() -> None:
    """Llama 3.1 8B, rank 16 on q, k, v, o, gate, up and down: 41.9 M, as peft prints."""
    assert memory.adapter_parameters(architecture.named("llama-3.1-8b"), 16) == 41_943_040


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


# --- precision and software -------------------------------------------------------------------------------------------


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
