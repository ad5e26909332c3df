from __future__ import annotations

import json
from pathlib import Path

from hyperpod_ray.ops.web import node_map
from hyperpod_ray.ops.web.view import NodeLine, Tone
from tests.ops.scale_helpers import RACK, shown, thousand
from tests.support import pages

BAD_RACK = 3


IN_TROUBLE = frozenset({*range(BAD_RACK * RACK, (BAD_RACK + 1) * RACK), 500, 700})


BAD = thousand(bad=IN_TROUBLE)


def test_a_small_cluster_has_no_picture(tmp_path: Path) -> None:
    _, html = shown(tmp_path, pages.healthy())
    assert 'id="node-map"' not in html and "node-find" not in html and "Nodes to look at" not in html
    assert "5 nodes ready for work" not in html and "7 nodes ready for work" in html


def test_the_bad_rack_is_first_in_the_picture_and_named(tmp_path: Path) -> None:
    data, html = shown(tmp_path, BAD)
    worst, *rest = node_map.blocks(data.nodes)
    rack = f"nn-{BAD_RACK:017x}"
    assert (worst.network, worst.troubled, len(worst.nodes)) == (rack, RACK, RACK)
    assert [block.troubled for block in rest[:3]] == [1, 1, 0]
    assert f"Not ready for work: {rack}: 16 of 16" in html
    assert "16 of 16 nodes below network node" in html and "elsewhere 2 of 986" in html
    assert html.count('class="cell bad"') == 2, "one path in the picture, one in the legend"


def test_what_needs_attention_goes_before_what_is_on_its_way() -> None:
    def nodes(network: str, *tones: Tone) -> list[NodeLine]:
        return [NodeLine(id=f"{network}{i}", group="a", tone=tone, state="x", network=network)
                for i, tone in enumerate(tones)]  # fmt: skip

    listed = [*nodes("n1", "good"), *nodes("n2", "busy", "busy"), *nodes("n3", "bad", "good")]
    assert [block.network for block in node_map.blocks(listed)] == ["n3", "n2", "n1"]


def test_each_cell_of_the_picture_leads_to_its_node(tmp_path: Path) -> None:
    data, html = shown(tmp_path, BAD)
    answer = json.loads(node_map.details(data.nodes))
    assert {row["id"] for row in answer["nodes"]} == {node.id for node in data.nodes}
    cells = {(row["x"], row["y"]): row for row in answer["nodes"]}
    assert len(cells) == len(data.nodes), "no two nodes have one place"
    drawn = html[html.index('id="node-map"') : html.index("</svg>", html.index('id="node-map"'))]
    for (x, y), row in cells.items():
        assert f"M{x} {y}" in drawn, row["id"]
        assert 0 <= x <= node_map.WIDTH - node_map.CELL
    lost = [row for row in answer["nodes"] if row["tone"] == "bad"]
    assert len(lost) == len(IN_TROUBLE) and all(row["state"] and row["pods"] for row in lost)
