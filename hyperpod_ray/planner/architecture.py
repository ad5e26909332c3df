"""The model that is trained: its shape, its number of parameters, and the arithmetic of one token."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from hyperpod_ray.planner import PlanError, data

ROUND = 128
"""Widths of an assumed shape are multiples of this."""

BY_SIZE = "--params"
"""Source of a shape that follows from a number of parameters alone."""


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """How many layers of each kind a hybrid has, and one of those that mix tokens in linear time."""

    name: str
    """`Mamba`, `Mamba-2` or `Gated DeltaNet`."""
    linear: int
    """Layers with it."""
    attention: int
    feeds: int
    """Dense feed-forward layers."""
    experts: int
    """Feed-forward layers with experts."""
    norms: int
    """Norms, and gates of experts, of the model's width in all layers together."""
    parameters: int
    """Of one linear layer."""
    scan_flop: float
    """Forward FLOP of one token in one linear layer, beside its matrices."""
    kept: int
    """Elements that one linear layer keeps of one token for its backward pass."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A decoder, dense or with a mixture of experts; all layers attend, or some mix tokens in linear time."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    feed: int
    """Width of a dense feed-forward layer; 0 where every layer has experts."""
    vocabulary: int
    tied: bool = False
    attention_bias: bool = False
    gated: bool = True
    """Feed-forward layers have three matrices; otherwise two."""
    linear_bias: bool = False
    """Every matrix and norm has a bias."""
    query_key_norm: bool = False
    positions: int = 0
    """Learned position embeddings."""
    window: int = 0
    """Tokens that a layer with a sliding window attends to; 0: all layers attend to everything."""
    full_layers: int = 0
    """Of those, layers that attend to everything."""
    query_rank: int = 0
    """Latent attention: width of compressed queries; 0: not compressed."""
    kv_rank: int = 0
    """Latent attention: width of compressed keys and values; 0: ordinary attention."""
    rope_width: int = 0
    """Latent attention: rotated part of a key, shared by all heads; part of `head_width`."""
    value_width: int = 0
    """Width of a value head. Default: `head_width`."""
    experts: int = 0
    """Routed experts of a layer; 0: a dense model."""
    experts_active: int = 0
    """Experts that compute each token."""
    expert_feed: int = 0
    """Width of one expert."""
    shared_feed: int = 0
    """Width of what every token passes beside its experts."""
    dense_layers: int = 0
    """Layers without experts, in a model that has them."""
    hybrid: Hybrid | None = None
    """Layers that mix tokens in linear time; None: all layers attend."""
    gated_attention: bool = False
    """Queries are projected a second time, for a gate."""
    source: str = ""
    assumed: str = ""
    """Why the shape is an assumption; empty where it is known."""

    # --- parameters -------------------------------------------------------------------------------------------------

    @property
    def attention(self) -> int:
        """Parameters of one layer's attention."""
        value_width = self.value_width or self.head_width
        output = self.heads * value_width * self.width
        if self.kv_rank:
            query = self.heads * self.head_width
            query_side = self.query_rank * (self.width + query + 1) if self.query_rank else self.width * query
            plain = self.head_width - self.rope_width
            down = self.width * (self.kv_rank + self.rope_width) + self.kv_rank
            return query_side + down + self.kv_rank * self.heads * (plain + value_width) + output
        query, both = self.heads * self.head_width, 2 * self.kv_heads * self.head_width
        gate = self.width * query if self.gated_attention else 0
        bias = query + both if self.attention_bias or self.linear_bias else 0
        bias += self.width if self.linear_bias else 0
        norm = 2 * self.head_width if self.query_key_norm else 0
        return self.width * (query + both) + gate + output + bias + norm

    def _feed(self, feed: int) -> int:
        matrices = (3 if self.gated else 2) * self.width * feed
        return matrices + (feed + self.width if self.linear_bias else 0)

    @property
    def _norms(self) -> int:
        return (4 if self.linear_bias else 2) * self.width

    @property
    def dense_block(self) -> int:
        """Parameters of one layer without experts."""
        return self.attention + self._feed(self.feed) + self._norms

    @property
    def expert(self) -> int:
        """Parameters of one routed expert."""
        return self._feed(self.expert_feed)

    @property
    def outside_experts(self) -> int:
        """Parameters of one layer with experts, but for the routed ones."""
        shared = self._feed(self.shared_feed) if self.shared_feed else 0
        return self.attention + shared + self.width * self.experts + self._norms

    @property
    def block(self) -> int:
        """Parameters of one layer; the larger kind where there are two."""
        if self.hybrid:
            feed = max(self.feed_parameters, self.routed_parameters if self.hybrid.experts else 0)
            return max(self.attention, self.hybrid.parameters) + feed + self._norms
        return self.outside_experts + self.experts * self.expert if self.experts else self.dense_block

    @property
    def feed_parameters(self) -> int:
        """Parameters of one dense feed-forward layer; 0 where there is none."""
        return self._feed(self.feed) if self.feed else 0

    @property
    def routed_parameters(self) -> int:
        """Parameters of one feed-forward layer with experts: routed, shared and router."""
        shared = self._feed(self.shared_feed) if self.shared_feed else 0
        return self.experts * self.expert + shared + self.width * self.experts

    @property
    def embedding(self) -> int:
        """Parameters of the input embedding."""
        return self.vocabulary * self.width

    @property
    def root(self) -> int:
        """Parameters outside the layers: embeddings, head, last norm."""
        norm = (2 if self.linear_bias else 1) * self.width
        return self.embedding * (1 if self.tied else 2) + self.positions * self.width + norm

    @property
    def _plain_layers(self) -> int:
        return self.dense_layers if self.experts else self.layers

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.hybrid.experts if self.hybrid else self.layers - self._plain_layers

    @property
    def parameters(self) -> int:
        """All parameters."""
        if kinds := self.hybrid:
            mixers = kinds.attention * self.attention + kinds.linear * kinds.parameters
            feeds = kinds.feeds * self.feed_parameters + kinds.experts * self.routed_parameters
            return mixers + feeds + kinds.norms * self.width + self.root
        plain = self._plain_layers
        return plain * self.dense_block + (self.layers - plain) * self.block + self.root

    @property
    def active(self) -> int:
        """Parameters that compute one token."""
        idle = self.expert_layers * (self.experts - self.experts_active) * self.expert
        return self.parameters - idle

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def attention_flop(self, sequence: int) -> float:
        """Training FLOP of one token in attention, causal: each token sees half of the sequence in the mean."""
        full_span = sequence / 2
        window = min(self.window, sequence) if self.window else 0
        window_span = window - window * window / (2 * sequence) if window else full_span
        attending = self.hybrid.attention if self.hybrid else self.layers
        full = self.full_layers if window else attending
        width = self.heads * (self.head_width + (self.value_width or self.head_width)) / 2
        return 12.0 * width * (full * full_span + (attending - full) * window_span)

    def flop_per_token(self, sequence: int) -> float:
        """Training FLOP of one token: 6 per parameter that multiplies, and attention. No recomputation."""
        multiplied = self.active - self.root + self.embedding
        scans = 3.0 * self.hybrid.linear * self.hybrid.scan_flop if self.hybrid else 0.0
        return 6.0 * multiplied + scans + self.attention_flop(sequence)

    @property
    def size(self) -> str:
        """`30.5B parameters, 3.35B of them active`."""
        words = f"{self.parameters / 1e9:.3g}B parameters"
        return f"{words}, {self.active / 1e9:.3g}B of them active" if self.experts else words


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
            f"model: {name[:60]}",
            expected=f"one of {', '.join(data.models())}",
            fix=f"{hint}give --params 70B, or --config config.json",
        )
    fields = shape.model_dump(exclude={"parameters", "active", "as_of", "compared"})
    return Architecture(name=name, **fields)


SMALLEST, LARGEST = 1e8, 2e12
"""Parameters of a model that is given by its size alone."""


def of_size(parameters: float) -> Architecture:
    """A dense shape in the proportions of the Llama 3 family with about so many parameters: `SMALLEST` to `LARGEST`."""
    shapes = [_llama(width) for width in range(4 * ROUND, 256 * ROUND, ROUND)]
    best = min(shapes, key=lambda shape: abs(shape.parameters - parameters))
    # the last step of the width is coarse: the number of layers takes the rest
    layers = max(1, round((parameters - best.root) / best.block))
    return replace(best, layers=layers, name=f"{parameters / 1e9:.3g}B parameters")


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
        source=BY_SIZE,
        assumed="only the number of parameters is given: width, layers and vocabulary are in proportion to Llama 3",
    )
