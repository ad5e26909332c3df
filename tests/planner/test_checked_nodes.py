from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.planner import (
    PlanError,
    checked_nodes,
)
from tests.planner.pipeline_helpers import checked, notes, outlook


def test_a_slow_fabric_slows_a_pipeline() -> None:
    """64 GPUs in four stages of 16: activations of both directions, and a stage gathered and reduced once a step."""
    slow = outlook(parallel="pp=4", batch_tokens="4194304", checked=checked(all_reduce_gb_s=1.0))
    own = 8192 / 4 * slow.micro_batches
    each = 6 * 8.030261248e9 / 4 / own + 8 * 4 * 4096 * 4
    assert slow.micro_batches == 32
    assert slow.fabric_limit == pytest.approx(1e9 / each)
    assert slow.steps_speed is not None and slow.throughput is not None
    assert slow.steps_speed[0].high == pytest.approx(1e9 / each)
    assert slow.throughput[0].high <= slow.steps_speed[0].high
    assert "tokens per second and GPU: the speeds above stop there" in notes(slow)
    fast = outlook(parallel="pp=4", batch_tokens="4194304", checked=checked())
    assert fast.steps_speed == outlook(parallel="pp=4", batch_tokens="4194304").steps_speed
    parts = outlook(parallel="pp=4,vp=4", batch_tokens="4194304", checked=checked(all_reduce_gb_s=1.0))
    assert slow.fabric_limit is not None and parts.fabric_limit is not None
    assert parts.fabric_limit < 0.5 * slow.fabric_limit


def test_a_slow_fabric_slows_adapters_half_as_much() -> None:
    """Frozen weights are gathered twice in bf16 and have no gradients: 4 bytes of each parameter, not 8."""
    full, lora = (
        outlook(checked=checked(all_reduce_gb_s=12.5, transport="Socket"), **wish) for wish in ({}, {"lora_rank": 16})
    )
    assert full.fabric_limit is not None and lora.fabric_limit is not None
    assert lora.fabric_limit == pytest.approx(2 * full.fabric_limit)
    assert lora.steps_speed is not None and lora.steps_speed[0].high == pytest.approx(lora.fabric_limit)


def test_experts_of_other_nodes_are_not_gathered_but_get_their_tokens() -> None:
    model = "qwen3-30b-a3b"
    alone, inside, across = (
        outlook(model=model, parallel=text, checked=checked(all_reduce_gb_s=12.5)).fabric_limit
        for text in ("", "ep=8", "ep=64")
    )
    assert alone is not None and inside is not None and across is not None
    assert alone == inside  # a node holds all experts, in one rank or in eight
    setting = outlook(model=model, parallel="ep=64").setting
    shape = setting.model
    routed = 48 * 128 * 3 * 2048 * 768
    gathered = 8 * (shape.parameters - routed * 7 / 8) / 8192
    exchanged = 8 * 8 * 48 * 8 * 2048 * 7 / 8
    assert across == pytest.approx(12.5e9 / (gathered + exchanged))


def test_a_plan_says_which_fabric_it_counts_on() -> None:
    assert "3,200 Gb/s a node. Measure it: hyperpod-ray nodes check prod" in notes(outlook())
    words = notes(outlook(checked=checked()))
    assert "found it on 2026-11-23: 2,880 Gb/s a node over AWS Libfabric, of 3,200" in words
    assert "stop there" not in words


def test_a_slow_fabric_slows_the_plan_and_the_plan_says_so() -> None:
    fast, slow = outlook(checked=checked()), outlook(checked=checked(all_reduce_gb_s=12.5, transport="Socket"))
    assert fast.steps_speed is not None and slow.steps_speed is not None
    # 8,192 tokens of a GPU, 8 bytes for each of 8.03e9 parameters, 12.5 GB/s into the node
    assert slow.steps_speed[0].high == pytest.approx(8192 * 12.5e9 / (8 * 8.030261248e9))
    assert fast.steps_speed[0].central > 2 * slow.steps_speed[0].central
    assert "at most 1,594 tokens per second and GPU" in notes(slow)
    assert slow.throughput is not None
    assert slow.throughput[0].high <= slow.steps_speed[0].high


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"instance_type": "ml.p4d.24xlarge"}, "it was of ml.p4d.24xlarge"),
        ({"transport": "gloo"}, "it measured no fabric between GPU nodes"),
        ({"all_reduce_gb_s": None, "transport": ""}, "it measured no fabric between GPU nodes"),
    ],
)
def test_a_check_that_says_nothing_of_this_fabric_is_not_used_and_named(change: dict[str, Any], words: str) -> None:
    look = outlook(checked=checked(**change))
    assert look.cluster.fabric_gbps == 3200
    assert look.steps_speed == outlook().steps_speed
    assert words in notes(look)


def test_faulty_nodes_of_the_check_are_named() -> None:
    assert "faulty nodes: i-2" in notes(outlook(checked=checked(nodes={"i-1": "good", "i-2": "faulty"})))


def test_the_journal_keeps_the_newest_test(tmp_path: Path) -> None:
    assert checked_nodes.newest("prod", tmp_path) is None
    for figure in (100.0, 360.0):
        path = checked_nodes.write(checked(all_reduce_gb_s=figure), "prod", tmp_path)
    assert path == tmp_path / "checks" / "prod.jsonl"
    assert len(path.read_text().splitlines()) == 2
    assert checked_nodes.newest("prod", tmp_path) == checked(all_reduce_gb_s=360.0)


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "null", '{"at": "x"}', '{"at": "2026-11-23T00:00:00+00:00", "instance_type": "a", "transport": "b", '
     '"nodes": {}, "findings": [], "all_reduce_gb_s": -3}', '{"at": "2026-11-23", "nodes": 3}'],
)  # fmt: skip
def test_a_damaged_journal_is_refused_by_its_path(tmp_path: Path, line: str) -> None:
    path = checked_nodes.write(checked(), "prod", tmp_path)
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(PlanError, match=r"prod\.jsonl"):
        checked_nodes.newest("prod", tmp_path)


def test_a_journal_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = checked_nodes.write(checked(), "prod", tmp_path)
    assert checked_nodes.newest("dev", tmp_path) is None
    monkeypatch.setattr(checked_nodes, "MOST_BYTES", path.stat().st_size)
    assert checked_nodes.newest("prod", tmp_path) == checked()
    monkeypatch.setattr(checked_nodes, "MOST_BYTES", path.stat().st_size - 1)
    with pytest.raises(PlanError, match=r"bytes\. Expected at most"):
        checked_nodes.newest("prod", tmp_path)
    monkeypatch.undo()
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="Expected the journal of nodes check"):
        checked_nodes.newest("prod", tmp_path)
    path.write_text("\n\n")
    assert checked_nodes.newest("prod", tmp_path) is None


def test_a_check_is_one_sentence() -> None:
    nodes = {"a": "good", "b": "busy", "c": "faulty", "d": "faulty"}
    assert checked(nodes=nodes).sentence == (
        "3 nodes on 2026-11-23, 2 faulty (c, d); all-reduce 360 GB/s over AWS Libfabric"
    )
    assert checked(nodes={"a": "good"}, all_reduce_gb_s=None).sentence == "1 node on 2026-11-23, 0 faulty"
