"""The architecture of a Hugging Face `config.json`, read by its keys and not by a list of models.

Families name the same figure differently; `NAMES` holds the words. What the planner has no formula for is refused by
what the file says: an encoder, an adapter's file, layers that are neither attention nor a known linear kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hyperpod_ray.planner import PlanError, linear_layers, reading
from hyperpod_ray.planner.architecture import Architecture

FIX = "give the config.json of a decoder, or --params instead"
LARGEST_MODEL = 1e14

NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups"),
    "head_width": ("head_dim",),
    "feed": ("intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "experts_active": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "moe_top_k",
        "moe_k",
        "moe_topk",
    ),
    "expert_feed": (
        "moe_intermediate_size",
        "moe_expert_intermediate_size",
        "expert_ffn_hidden_size",
        "intermediate_size",
        "ffn_hidden_size",
    ),
    "shared": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_feed": (
        "shared_expert_intermediate_size",
        "shared_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "share_expert_dim",
    ),
    "first_dense": ("first_k_dense_replace", "moe_layer_start_index"),
}
BOUNDS: dict[str, tuple[int, int]] = {
    "layers": (1, 10_000), "width": (16, 1_000_000), "heads": (1, 10_000), "kv_heads": (1, 10_000),
    "head_width": (1, 100_000), "feed": (1, 10_000_000), "vocabulary": (2, 10_000_000), "experts": (0, 100_000),
    "experts_active": (1, 100_000), "expert_feed": (1, 10_000_000), "shared": (0, 1000), "shared_feed": (0, 10_000_000),
    "first_dense": (0, 10_000),
}  # fmt: skip
"""Smallest and largest value of each figure."""

UNGATED = {
    "gpt2", "gpt_neo", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "falcon", "mpt", "phi", "starcoder2",
    "codegen", "persimmon", "nemotron", "apertus",
}  # fmt: skip
"""Families with two matrices in a feed-forward layer whose activation does not tell them apart."""
PLAIN = {"relu", "relu2", "gelu", "gelu_new", "gelu_fast", "xielu"}
"""Activations of two matrices, where the family does not tell."""
GATING = {"silu", "swish", "swiglu", "gelu_pytorch_tanh", "geglu"}
WITH_BIAS = {"gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "mpt", "phi", "starcoder2"}
TIED = {"gpt2", "gpt_bigcode", "opt", "bloom", "mpt", "falcon", "cohere", "cohere2", "starcoder2"}
"""Families whose head is the embedding where the file does not say."""

SHAPES = re.compile(
    r"hidden|intermediate|ffn|mlp|feed|dim|rank|head|layer|block|expert|moe|conv|width|depth|size|ratio"
)
"""Words of keys that describe a shape."""
HARMLESS = re.compile(
    r"dropout|rope|rotary|router|token_id|max_|_dropped|position|init|n_group$|topk_group|topk_method|nextn|mtp|quant"
    r"|ep_size|pretraining_tp|chunk_size|_loss|norm_topk|capacity|tile|patch|image|vision|video|audio|mm_|cache"
    r"|num_nextn|batch_size|feature_size|no_rope|head_mix|index_|query_pre_attn|scal(e|ing)|smooth|epsilon|_eps|group_size"
)
"""Words of keys that say how a shape is used, and not what it is."""
READ = {key for keys in NAMES.values() for key in keys} | {
    "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "qk_head_dim", "v_head_dim",
    "expansion_ratio", "mlp_only_layers", "moe_layers_enum", "moe_layer_freq", "interleave_moe_layer_step",
    "decoder_sparse_step", "layer_types", "layers_block_type", "hybrid_layer_pattern", "attn_type_list",
    "attn_layer_period", "attn_layer_offset", "expert_layer_period", "expert_layer_offset", "moe_layer_interval",
    "full_attention_interval", "state_size", "ssm_state_size", "conv_kernel", "chunk_size", "moe_layer_end_index",
    "n_ctx", "hybrid_override_pattern",
}  # fmt: skip
"""Keys that `_Fields` and `linear_layers` read, and those that repeat one of them."""
READ_PREFIXES = ("mamba_", "linear_", "ssm_")


def architecture(path: Path) -> Architecture:
    """The architecture of a file.

    Raises:
        PlanError: it cannot be read, lacks a figure, has an impossible one, or describes what is not modelled.
    """
    config = reading.json_object(path, option="--config", fix=FIX)
    inner = config.get("text_config") or config.get("llm_config")
    raw: Mapping[str, Any] = {**config, **inner} if isinstance(inner, dict) else config
    _refuse(path, raw)
    model = _Fields(path, raw).architecture(multimodal=isinstance(inner, dict))
    if not 1e6 <= model.parameters <= LARGEST_MODEL:
        raise PlanError(
            f"--config {path}: {model.parameters:.3g} parameters", expected="1M to 100T parameters in all", fix=FIX
        )
    return model


def _refuse(path: Path, raw: Mapping[str, Any]) -> None:
    if any(raw.get(key) for key in ("peft_type", "lora_alpha", "base_model_name_or_path")):
        raise PlanError(
            f"--config {path}: the file of an adapter (peft)",
            expected="the base model's config.json",
            fix="give the base model's config.json, and --lora-rank for LoRA",
        )
    if raw.get("is_encoder_decoder") or "encoder_layers" in raw or "num_encoder_layers" in raw:
        raise PlanError(
            f"--config {path}: a model with an encoder",
            expected="a decoder: no formula counts an encoder here",
            fix=FIX,
        )
    listed = raw.get("architectures")
    classes = [str(name)[:60] for name in listed[:3]] if isinstance(listed, list) else []
    decoders = ("CausalLM", "LMHead", "ConditionalGeneration", "ImageTextToText")
    if "type_vocab_size" in raw or (classes and not any(word in name for name in classes for word in decoders)):
        raise PlanError(
            f"--config {path}: {', '.join(classes) or raw.get('model_type')} is no decoder that writes text",
            expected="a model for causal language modelling",
            fix=FIX,
        )
    if words := linear_layers.unknown(raw):
        raise PlanError(
            f"--config {path}: {words}",
            expected="layers of attention, Mamba, Mamba-2 or Gated DeltaNet: no formula counts others here",
            fix="measure a short run and give --params of its active parameters with --tokens-per-second",
        )


def _alike(value: object) -> object:
    """The figure of a list that gives each layer the same one; anything else as it is."""
    if isinstance(value, list) and value and all(isinstance(each, int) and each == value[0] for each in value):
        return value[0]
    return value


def _shapes(value: object) -> bool:
    """Whether a value can be part of a shape: a whole number of two or more, or a list with one."""
    values = value if isinstance(value, list) else [value]
    return any(isinstance(each, int) and not isinstance(each, bool) and each > 1 for each in values)


class _Fields:
    """Figures of one file by the planner's names."""

    def __init__(self, path: Path, raw: Mapping[str, Any]) -> None:
        self.path, self.raw = path, raw
        self.family = str(raw.get("model_type", ""))

    def get(self, name: str, default: int | None = None) -> int:
        """A figure by any of its names; `default` where none is there."""
        low, high = BOUNDS[name]
        for key in NAMES[name]:
            if self.raw.get(key) is not None:
                value = _alike(self.raw[key])
                return int(
                    reading.number(
                        value, name=f"--config {self.path}: {key}", low=low, high=high, fix=FIX, integer=True
                    )
                )
        if default is None:
            raise PlanError(
                f"--config {self.path}: no {NAMES[name][0]}", expected=f"one of {', '.join(NAMES[name])}", fix=FIX
            )
        return default

    def optional(self, key: str, high: int) -> int:
        """A figure that may be absent or null: then 0."""
        value = self.raw.get(key)
        if value is None:
            return 0
        name = f"--config {self.path}: {key}"
        return int(reading.number(value, name=name, low=0, high=high, fix=FIX, integer=True))

    def architecture(self, *, multimodal: bool) -> Architecture:
        layers, width, heads = self.get("layers"), self.get("width"), self.get("heads")
        one_key = self.raw.get("multi_query") is True and not self.raw.get("new_decoder_architecture")
        latent = self.optional("kv_lora_rank", 1_000_000)
        rope = self.optional("qk_rope_head_dim", 100_000) if latent else 0
        head_width = (
            self.optional("qk_nope_head_dim", 100_000) + rope if latent else self.get("head_width", width // heads)
        )
        if not head_width:
            raise PlanError(
                f"--config {self.path}: {heads} heads in a width of {width}", expected="at most one per unit", fix=FIX
            )
        window, full = self._window(layers)
        experts = self._experts(layers)
        hybrid = linear_layers.hybrid(self, layers=layers, width=width, experts=experts.get("experts", 0))
        return Architecture(
            name=str(self.raw.get("_name_or_path") or self.path.name)[:80],
            layers=layers,
            width=width,
            heads=heads,
            kv_heads=min(heads, self.get("kv_heads", 1 if one_key else heads)),
            head_width=head_width,
            feed=self._feed(width, experts),
            vocabulary=self.get("vocabulary"),
            tied=bool(self.raw.get("tie_word_embeddings", self.family in TIED or self.family.startswith("gemma"))),
            attention_bias=bool(self.raw.get("attention_bias", self.family.startswith("qwen2"))),
            gated=self._gated(),
            linear_bias=self.family in WITH_BIAS and not self.raw.get("no_bias"),
            query_key_norm=self.family.startswith(("qwen3", "gemma3", "olmo2", "olmo3")),
            positions=self.optional("n_positions", 10_000_000) if self.family in {"gpt2", "gpt_bigcode"} else 0,
            window=window,
            full_layers=full,
            query_rank=self.optional("q_lora_rank", 1_000_000) if latent else 0,
            kv_rank=latent,
            rope_width=rope,
            value_width=self.optional("v_head_dim", 100_000) if latent else 0,
            hybrid=hybrid,
            gated_attention=self.family == "qwen3_next" or self.raw.get("attn_output_gate") is True,
            **experts,
            source=str(self.path),
            assumed="; ".join(self._assumptions(multimodal=multimodal)),
        )

    def _assumptions(self, *, multimodal: bool) -> Iterator[str]:
        if multimodal:
            yield "of a model with several kinds of input, only the text part is counted"
        activation = self._activation
        if self.family not in UNGATED and activation not in PLAIN | GATING:
            yield f"activation {activation[:40]} is taken as one with a gate: three matrices"
        if keys := self._uncounted():
            yield f"keys of the file that are not counted: {', '.join(keys)}"
        if self.raw.get("index_topk"):
            yield "attention that an index makes sparse is counted in full, and the index not at all"

    def _uncounted(self) -> list[str]:
        """Keys that look like a shape and that nothing here reads: the most that a plan can say of a new family."""
        keys = [
            key
            for key, value in self.raw.items()
            if key not in READ
            and not key.startswith(READ_PREFIXES)
            and SHAPES.search(key)
            and not HARMLESS.search(key)
            and _shapes(value)
            and (key, value) != ("attention_head_dim", self.raw.get("head_dim"))
        ]
        return [key[:60] for key in sorted(keys)[:8]]

    @property
    def _activation(self) -> str:
        words = [self.raw.get(key) for key in ("mlp_hidden_act", "hidden_act", "hidden_activation")]
        return str(next(filter(None, words), "silu")).lower()

    def _gated(self) -> bool:
        if self.family in UNGATED:
            return False
        return self._activation not in PLAIN or self.family.startswith("gemma")

    def _feed(self, width: int, experts: Mapping[str, int]) -> int:
        if experts and not experts["dense_layers"] and not self.raw.get("expert_layer_period"):
            return 0
        if self.family == "granitemoehybrid" and not experts:
            return self.get("shared_feed")  # its dense models have the shared layer alone
        ratio = self.optional("expansion_ratio", 100) or (4 if self.family in UNGATED or "n_embd" in self.raw else 0)
        return self.get("feed", ratio * width or None)

    def _experts(self, layers: int) -> dict[str, int]:
        experts = self.get("experts", 0)
        if experts < 2:
            return {}
        active = self.get("experts_active")
        if active > experts:
            raise PlanError(
                f"--config {self.path}: {active} of {experts} experts for a token",
                expected=f"at most {experts}",
                fix=FIX,
            )
        feed = self.get("expert_feed")
        shared = self.get("shared_feed", 0) or self.get("shared", 1 if self.family.startswith("llama4") else 0) * feed
        if self.raw.get("residual_moe"):  # a dense layer beside the experts of each layer (Grok)
            shared += self.get("feed")
        return {
            "experts": experts,
            "experts_active": active,
            "expert_feed": feed,
            "shared_feed": shared,
            "dense_layers": min(layers, self._dense_layers(layers)),
        }

    def _dense_layers(self, layers: int) -> int:
        listed = self.raw.get("mlp_only_layers")
        if isinstance(listed, list) and listed:
            return len(listed)
        if isinstance(numbers := self.raw.get("moe_layers_enum"), str) and numbers:
            return layers - len(set(numbers.split(",")))
        frequency = self.raw.get("moe_layer_freq")
        if isinstance(frequency, list):
            return sum(1 for value in frequency if not value)
        leading = self.get("first_dense", 0)
        step = (
            self.optional("interleave_moe_layer_step", 10_000)
            or self.optional("decoder_sparse_step", 10_000)
            or (0 if frequency is None else self.optional("moe_layer_freq", 10_000))
            or 1
        )
        rest = max(0, layers - leading)
        return leading + rest - rest // step

    def _window(self, layers: int) -> tuple[int, int]:
        """Width of the sliding window, and the layers without it."""
        if self.raw.get("use_sliding_window") is False:
            return 0, 0
        window = self.optional("sliding_window", 1_000_000_000)
        kinds = self.raw.get("layer_types")
        if isinstance(kinds, list):
            return (window, sum(1 for layer in kinds if layer == "full_attention")) if window else (0, 0)
        slides = self.raw.get("hybrid_layer_pattern")  # 1: the layer has a sliding window (MiMo)
        if isinstance(slides, list):
            return (window, sum(1 for layer in slides if not layer)) if window else (0, 0)
        letters = self.raw.get("sliding_window_pattern")  # L: the layer has a sliding window (EXAONE)
        if isinstance(letters, str) and letters and set(letters) <= {"L", "G"}:
            return window, sum(letters[layer % len(letters)] == "G" for layer in range(layers)) if window else 0
        pattern = self.optional("sliding_window_pattern", 10_000)
        return window, layers // pattern if pattern else 0
