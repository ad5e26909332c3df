"""A large cluster as a picture: a cell for each node, in blocks of those that share a network node, the worst first.

Each tone is one path, so that a thousand nodes are some elements and some kilobytes. The browser asks what a cell is of
when somebody looks at it: `details` has the place of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from hyperpod_ray.ops import output
from hyperpod_ray.ops.observe.node_rows import FOLDED
from hyperpod_ray.ops.web.html import SIGNS
from hyperpod_ray.ops.web.view import NodeLine, Tone

CELL, STEP = 9, 11
COLUMNS = 16
"""Cells of a row of a block."""
WIDTH, BLOCKS = 1110, 6
"""Of the picture, and blocks side by side."""
LABEL = 15
LETTERS, LETTERS_BOLD = 25, 22
"""Of a block's name and count; more of them reach into the next block."""
TROUBLE: tuple[Tone, ...] = ("bad", "busy", "none")
SHAPES: dict[Tone, str] = {
    "good": "M{x} {y}h9v9h-9z", "busy": "M{x} {y}h9l-9 9z", "none": "M{x} {y}m3 3h3v3h-3z",
    "bad": "M{x} {y}l9 9m0-9l-9 9",
}  # fmt: skip
"""A shape for each tone, so that no colour is needed to tell them apart."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Nodes of a group below one network node; all of a group where the network is not known."""

    group: str
    network: str
    nodes: tuple[NodeLine, ...]

    @property
    def troubled(self) -> int:
        """How many are not well."""
        return sum(node.tone != "good" for node in self.nodes)

    def share(self, tone: Tone) -> float:
        """The part of its nodes that has a tone."""
        return sum(node.tone == tone for node in self.nodes) / len(self.nodes)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.network or self.group


def large(nodes: Sequence[NodeLine]) -> bool:
    """Whether so many nodes are better seen than read."""
    return len(nodes) > FOLDED


def blocks(nodes: Iterable[NodeLine]) -> list[Block]:
    """Nodes by group and network node, the block with most trouble first."""
    members: dict[tuple[str, str], list[NodeLine]] = {}
    for node in nodes:
        members.setdefault((node.group, node.network), []).append(node)
    listed = [Block(group=group, network=network, nodes=tuple(part)) for (group, network), part in members.items()]
    return sorted(listed, key=lambda block: (-block.share("bad"), -block.troubled / len(block.nodes), block.group,
                                             block.network))  # fmt: skip


def draw(nodes: Sequence[NodeLine]) -> str:
    """The picture, with a legend and a field that finds a node."""
    placed, height = _placed(nodes)
    paths: dict[Tone, list[str]] = {}
    for node, x, y in placed.cells:
        paths.setdefault(node.tone, []).append(SHAPES[node.tone].format(x=x, y=y))
    drawn = "".join(f'<path class="cell {tone}" d="{"".join(parts)}"/>' for tone, parts in paths.items())
    labels = "".join(
        f'<text class="{"label" if block.troubled else ""}" x="{x}" y="{y}">{escape(_label(block))}</text>'
        for block, x, y in placed.labels
    )
    worst = [block for block, _, _ in placed.labels if block.troubled]
    said = "; ".join(f"{block.name}: {block.troubled} of {len(block.nodes)}" for block in worst[:5])
    summary = (
        f"{len(nodes)} nodes. Not ready for work: {said}." if worst else f"{len(nodes)} nodes, all ready for work."
    )
    tones = ("good", *TROUBLE)
    words = ("ready for work", "needs attention", "on its way", "not known")
    legend = "".join(
        f'<span class="key"><svg viewBox="0 0 11 11" width="12" height="12" aria-hidden="true"><path '
        f'class="cell {tone}" d="{SHAPES[tone].format(x=1, y=1)}"/></svg> {meaning} ({len(paths[tone])})</span> '
        for tone, meaning in zip(tones, words, strict=True)
        if tone in paths
    )
    return (
        f'<figure><svg id="node-map" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(summary)}">'
        f"{labels}{drawn}</svg><figcaption>{legend}A block is a network node of the last layer, or a group where "
        "Kubernetes does not say. Click a node, or find it below.</figcaption></figure>"
    )


FIND = (
    '<label for="node-find">Find a node</label> <input id="node-find" type="search" autocomplete="off" '
    'placeholder="ID, group, state, network node"><div id="node-details" aria-live="polite"></div>'
)
"""A field that page.js answers; always the same, so that what somebody types stays."""


def details(nodes: Sequence[NodeLine]) -> bytes:
    """What the browser asks for when a node is to be looked at, as JSON."""
    placed, _ = _placed(nodes)
    rows = [
        {
            "id": node.id, "group": node.group, "sign": SIGNS[node.tone], "tone": node.tone, "state": node.state,
            "fault": node.fault, "pods": list(node.pods), "network": node.network,
            "launched": output.clock(node.launched), "x": x, "y": y,
            "history": [f"{output.clock(event.time)} {event.what}" for event in node.history],
        }
        for node, x, y in placed.cells
    ]  # fmt: skip
    return json.dumps({"step": STEP, "nodes": rows}, separators=(",", ":")).encode()


@dataclass(frozen=True, kw_only=True)
class _Places:
    cells: list[tuple[NodeLine, int, int]]
    labels: list[tuple[Block, int, int]]


def _placed(nodes: Sequence[NodeLine]) -> tuple[_Places, int]:
    """Where each cell and each block's name stands, and the picture's height."""
    places = _Places(cells=[], labels=[])
    listed = blocks(nodes)
    few = len(listed) < BLOCKS
    columns, width = (COLUMNS * BLOCKS, WIDTH) if few else (COLUMNS, WIDTH // BLOCKS)
    x, y, deepest = 0, 0, 0
    for block in listed:
        if x + width > WIDTH:
            x, y, deepest = 0, y + deepest, 0
        places.labels.append((block, x, y + LABEL - 4))
        for number, node in enumerate(block.nodes):
            places.cells.append((node, x + number % columns * STEP, y + LABEL + number // columns * STEP))
        deepest = max(deepest, LABEL + -(-len(block.nodes) // columns) * STEP + 4)
        x += width
    return places, y + deepest


def _label(block: Block) -> str:
    """Name and count, as wide as a block at most: those of trouble are bold."""
    count = f"{block.troubled} of {len(block.nodes)}" if block.troubled else f"{len(block.nodes)}"
    most = (LETTERS_BOLD if block.troubled else LETTERS) - len(count) - 1
    name = block.name if len(block.name) <= most else f"…{block.name[-(most - 1) :]}"
    return f"{name} {count}"
