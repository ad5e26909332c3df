"""Layers that mix tokens in linear time, by the keys of a Hugging Face `config.json`: Mamba, Mamba-2, Gated DeltaNet.

Parameters are counted as the published modules have them; a test compares whole models with their published counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner.architecture import Hybrid

ATTENTION = {"full_attention", "sliding_attention", "chunked_attention", "global_attention", "attention", "local"}
LINEAR = {"mamba", "linear_attention"}
CHUNK = 256
"""Tokens that Mamba-2 and Gated DeltaNet multiply at once."""
BOTH_IN_ONE = {
    "falcon_h1": "attention beside Mamba-2 in each layer", "hymba": "attention beside Mamba in each layer",
    "zamba": "attention that layers share", "zamba2": "attention that layers share",
    "recurrent_gemma": "recurrent layers (RG-LRU)", "rwkv": "RWKV layers", "lfm2": "convolutions",
    "lfm2_moe": "convolutions", "kimi_linear": "Kimi Delta Attention", "mamba": "no attention at all",
    "mamba2": "no attention at all", "falcon_mamba": "no attention at all",
}  # fmt: skip
"""Families that no formula counts here, and why."""
UNCOUNTED = {
    "compress_ratios": "attention to compressed keys", "hidden_size_per_layer_input": "embeddings of each layer",
    "altup_num_inputs": "alternating updates", "hc_mult": "hyper-connections",
    "num_kv_shared_layers": "keys that layers share", "o_lora_rank": "a compressed output of attention",
    "zero_expert_num": "experts that compute nothing", "share_q_dim": "queries of a shared rank",
    "total_ut_steps": "layers that run several times", "parallel_attn_mlp_res": "a dense layer beside experts",
    "enable_moe_block": "a dense layer beside experts", "global_head_dim": "heads of two widths",
    "block_configs": "layers of different shapes", "layerwise_config": "layers of different shapes",
}  # fmt: skip
"""Keys of shapes that no formula counts here, whatever the family."""
FIX = "give the config.json of a known hybrid (Jamba, Nemotron-H, Qwen3-Next, Granite 4), or --params instead"


class Fields(Protocol):
    """What a file says, by key."""

    path: Any
    raw: Mapping[str, Any]
    family: str

    def optional(self, key: str, high: int) -> int:
        """A figure that may be absent."""


def unknown(raw: Mapping[str, Any]) -> str:  # noqa: PLR0911
    """What of a file's layers is neither attention nor a known linear kind; empty where all are."""
    family = str(raw.get("model_type", ""))
    if family in BOTH_IN_ONE:
        return f"{family}: {BOTH_IN_ONE[family]}"
    if key := next((key for key in UNCOUNTED if raw.get(key)), ""):
        return f"{key}: {UNCOUNTED[key]}"
    kinds = listed(raw)
    if others := sorted({kind[:40] for kind in kinds} - ATTENTION - LINEAR):
        return f"layers that are not attention ({', '.join(others[:3])})"
    types = raw.get("attn_type_list")
    if isinstance(types, list) and any(kind != 1 for kind in types):
        return "layers that are not attention (attn_type_list: lightning attention)"
    pattern = raw.get("hybrid_override_pattern")
    if isinstance(pattern, str) and (others := sorted(set(pattern) - set("M*-E"))):
        return f"layers that are not attention (hybrid_override_pattern: {', '.join(others)})"
    keys = [key for key in raw if key.startswith(("ssm_", "mamba_", "linear_num_", "rwkv")) and raw[key]]
    keys += [key for key in ("state_size", "linear_attn_config") if raw.get(key)]
    known = (
        bool(set(kinds) & LINEAR)
        or isinstance(pattern, str)
        or raw.get("attn_layer_period")
        or (raw.get("full_attention_interval"))
    )
    if keys and not (known and _complete(raw)):
        return f"layers that are not attention ({', '.join(keys[:3])})"
    if known and set(kinds) & LINEAR and not keys:
        return "layers that are not attention, without their shape (mamba_… or linear_num_…)"
    return ""


def _complete(raw: Mapping[str, Any]) -> bool:
    """Whether one of the three kinds has its shape in the file."""
    return (
        raw.get("linear_num_value_heads") is not None
        or (raw.get("mamba_n_heads") or raw.get("mamba_num_heads")) is not None
        or raw.get("mamba_d_state") is not None
    )


def listed(raw: Mapping[str, Any]) -> list[str]:
    """Kinds of layers where the file lists them."""
    layers = raw.get("layer_types") or raw.get("layers_block_type") or []
    return [str(layer) for layer in layers] if isinstance(layers, list) else [str(layers)]


def hybrid(fields: Fields, *, layers: int, width: int, experts: int) -> Hybrid | None:
    """The linear layers of a file, and how many layers of each kind it has; None where all layers attend.

    Raises:
        PlanError: A figure is missing, or the layers that are listed are not as many as the file says.
    """
    raw, kinds = fields.raw, listed(fields.raw)
    pattern = raw.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        _as_many(fields, pattern, layers)
        count = {letter: pattern.count(letter) for letter in "M*-E"}
        name, parameters, flop, kept = _mamba2(fields, width)
        return Hybrid(
            name=name, linear=count["M"], attention=count["*"], feeds=count["-"], experts=count["E"], norms=layers,
            parameters=parameters, scan_flop=flop, kept=kept,
        )  # fmt: skip
    if set(kinds) & LINEAR:
        _as_many(fields, kinds, layers)
        linear = sum(kind in LINEAR for kind in kinds)
    elif period := fields.optional("attn_layer_period", 10_000):
        offset = fields.optional("attn_layer_offset", 10_000)
        linear = layers - sum(layer % period == offset for layer in range(layers))
    elif (interval := fields.optional("full_attention_interval", 10_000)) and raw.get("linear_num_value_heads"):
        linear = layers - layers // interval
    else:
        return None
    if raw.get("linear_num_value_heads"):
        name, parameters, flop, kept = _delta_net(fields, width)
    elif raw.get("mamba_n_heads") or raw.get("mamba_num_heads"):
        name, parameters, flop, kept = _mamba2(fields, width)
    else:
        name, parameters, flop, kept = _mamba(fields, width)
    routed = layers if experts else 0
    if experts and (every := fields.optional("expert_layer_period", 10_000)):
        offset = fields.optional("expert_layer_offset", 10_000)
        routed = sum(layer % every == offset for layer in range(layers))
    gates = routed if fields.family.startswith(("qwen3_next", "qwen3_5_moe")) else 0  # of the shared expert
    return Hybrid(
        name=name, linear=linear, attention=layers - linear, feeds=layers - routed, experts=routed,
        norms=2 * layers + gates,
        parameters=parameters, scan_flop=flop, kept=kept,
    )  # fmt: skip


def _as_many(fields: Fields, kinds: Iterable[str], layers: int) -> None:
    count = len(list(kinds))
    if count != layers:
        raise PlanError(
            f"--config {fields.path}: {count} layers are listed, num_hidden_layers is {layers}",
            expected="as many", fix=FIX,
        )  # fmt: skip


def _figure(fields: Fields, *keys: str, default: int = 0) -> int:
    for key in keys:
        if value := fields.optional(key, 10_000_000):
            return value
    if default:
        return default
    raise PlanError(f"--config {fields.path}: no {keys[0]}", expected=f"one of {', '.join(keys)}", fix=FIX)


Layer = tuple[str, int, float, int]
"""Name, parameters, forward FLOP of a token beside the matrices, elements that are kept."""


def _mamba2(fields: Fields, width: int) -> Layer:
    heads = _figure(fields, "mamba_n_heads", "mamba_num_heads")
    head = fields.raw.get("mamba_d_head")
    inner = heads * (
        _figure(fields, "mamba_d_head", "mamba_head_dim")
        if head != "auto"
        else _figure(fields, "mamba_expand", default=2) * width // heads
    )
    state = _figure(fields, "mamba_d_state", "ssm_state_size")
    groups = _figure(fields, "mamba_n_groups", "n_groups", default=1)
    kernel = _figure(fields, "mamba_d_conv", "conv_kernel", default=4)
    mixed = inner + 2 * groups * state
    projected = inner + mixed + heads
    parameters = width * projected + mixed * (kernel + 1) + 3 * heads + inner + inner * width
    flop = 6.0 * inner * state + CHUNK * (groups * state + inner)
    return "Mamba-2", parameters, flop, 3 * width + projected + mixed + 3 * inner


def _mamba(fields: Fields, width: int) -> Layer:
    state = _figure(fields, "mamba_d_state")
    inner = _figure(fields, "mamba_expand", default=2) * width
    kernel = _figure(fields, "mamba_d_conv", default=4)
    rank_word = fields.raw.get("mamba_dt_rank")
    rank = math.ceil(width / 16) if rank_word in (None, "auto") else _figure(fields, "mamba_dt_rank")
    parameters = (
        2 * width * inner + inner * (kernel + 1) + inner * (rank + 2 * state) + (rank + 1) * inner
        + inner * state + inner + inner * width
    )  # fmt: skip
    if fields.family == "jamba":  # norms of the step, and of both projections of the state
        parameters += rank + 2 * state
    return "Mamba", parameters, 9.0 * inner * state, 3 * width + 6 * inner + rank + 2 * state


def _delta_net(fields: Fields, width: int) -> Layer:
    keys = _figure(fields, "linear_num_key_heads") * _figure(fields, "linear_key_head_dim")
    heads, value = _figure(fields, "linear_num_value_heads"), _figure(fields, "linear_value_head_dim")
    values = heads * value
    kernel = _figure(fields, "linear_conv_kernel_dim", default=4)
    mixed = 2 * keys + values
    projected = mixed + values + 2 * heads
    parameters = width * projected + mixed * kernel + 2 * heads + value + values * width
    flop = 8.0 * values * _figure(fields, "linear_key_head_dim") + CHUNK * (keys + values)
    return "Gated DeltaNet", parameters, flop, 3 * width + projected + mixed + 3 * values
