"""The model that is trained: its shape, its number of parameters, and the arithmetic of one token."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray.planner import PlanError, data

ROUND = 128
"""Widths of an assumed shape are multiples of this."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A dense decoder with gated feed-forward layers."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    feed: int
    vocabulary: int
    tied: bool = False
    attention_bias: bool = False
    source: str = ""
    assumed: str = ""
    """Why the shape is an assumption; empty where it is known."""

    @property
    def block(self) -> int:
        """Parameters of one layer."""
        query, both = self.heads * self.head_width, 2 * self.kv_heads * self.head_width
        attention = self.width * (query + both) + query * self.width
        bias = query + both if self.attention_bias else 0
        return attention + bias + 3 * self.width * self.feed + 2 * self.width

    @property
    def embedding(self) -> int:
        """Parameters of the input embedding."""
        return self.vocabulary * self.width

    @property
    def root(self) -> int:
        """Parameters outside the layers: embedding, head, last norm."""
        return self.embedding * (1 if self.tied else 2) + self.width

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.layers * self.block + self.root

    def flop_per_token(self, sequence: int) -> float:
        """Training FLOP of one token: 6 per parameter that multiplies, and causal attention. No recomputation."""
        multiplied = self.layers * self.block + self.embedding
        return 6.0 * multiplied + 6.0 * self.layers * self.heads * self.head_width * sequence


def named(name: str) -> Architecture:
    """A model of `data/models.yaml`.

    Raises:
        PlanError: none is called so.
    """
    shape = data.models().get(name)
    if shape is None:
        close = difflib.get_close_matches(name.lower(), data.models(), n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise PlanError(
            f"model: {name}",
            expected=f"one of {', '.join(data.models())}",
            fix=f"{hint}give --params 70B, or --config config.json",
        )
    fields = shape.model_dump(exclude={"parameters", "as_of", "compared"})
    return Architecture(name=name, **fields)


def of_size(parameters: float) -> Architecture:
    """A shape in the proportions of the Llama 3 family with about so many parameters.

    Raises:
        PlanError: the number is no size of a language model.
    """
    if not 1e8 <= parameters <= 2e12:
        raise PlanError(f"--params: {parameters:.3g}", expected="100M to 2T", fix="write 70B for 70e9")
    made = [_llama(width) for width in range(4 * ROUND, 256 * ROUND, ROUND)]
    best = min(made, key=lambda one: abs(one.parameters - parameters))
    # the last step of the width is coarse: the number of layers takes the rest
    layers = max(1, round((parameters - best.root) / best.block))
    fields = {**vars(best), "layers": layers, "name": f"{parameters / 1e9:.3g}B parameters"}
    return Architecture(**fields)


def _llama(width: int) -> Architecture:
    return Architecture(
        name="",
        layers=max(1, round(width / 115)),
        width=width,
        heads=width // ROUND,
        kv_heads=min(8, width // ROUND),
        head_width=ROUND,
        feed=round(3.5 * width / ROUND) * ROUND,
        vocabulary=128256,
        source="--params",
        assumed="only the number of parameters is given: width, layers and vocabulary are in proportion to Llama 3",
    )


def from_config(path: Path) -> Architecture:
    """The architecture of a Hugging Face `config.json`.

    Raises:
        PlanError: it cannot be read, lacks a figure, or is of a kind that the planner has no model for.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(
            f"{path}: {error}", expected="a JSON file", fix="give a config.json of a language model"
        ) from None
    if not isinstance(raw, dict):
        raise PlanError(
            f"{path}: not an object", expected="a JSON object", fix="give a config.json of a language model"
        )
    _refuse_kinds(path, raw)
    try:
        heads = int(raw["num_attention_heads"])
        width = int(raw["hidden_size"])
        return Architecture(
            name=str(raw.get("_name_or_path") or path.name),
            layers=int(raw["num_hidden_layers"]),
            width=width,
            heads=heads,
            kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_width=int(raw.get("head_dim") or width // heads),
            feed=int(raw["intermediate_size"]),
            vocabulary=int(raw["vocab_size"]),
            tied=bool(raw.get("tie_word_embeddings", False)),
            attention_bias=bool(raw.get("attention_bias", raw.get("model_type") == "qwen2")),
            source=str(path),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(
            f"{path}: no usable {error}",
            expected="hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, vocab_size",
            fix="give --params instead",
        ) from None


GATED = ("llama", "mistral", "qwen2", "qwen3", "gemma", "phi3", "")
"""`model_type` of decoders with gated feed-forward layers, whose parameters the formula counts."""


def _refuse_kinds(path: Path, raw: dict[str, Any]) -> None:
    experts = next((key for key in raw if "expert" in key and raw[key]), None)
    if experts:
        raise PlanError(
            f"{path}: {experts}: a mixture of experts is not modelled",
            expected="a dense model, whose memory, traffic and speed differ",
            fix="measure a short run, and plan with --params of a dense model only if you know why",
        )
    if any(key in raw for key in ("peft_type", "lora_alpha", "r")):
        raise PlanError(
            f"{path}: LoRA is not modelled", expected="full training", fix="give the base model's config.json"
        )
    kind = str(raw.get("model_type", ""))
    if kind not in GATED:
        raise PlanError(
            f"{path}: model_type {kind} is not modelled",
            expected=f"one of {', '.join(filter(None, GATED))}",
            fix="give --params instead",
        )
