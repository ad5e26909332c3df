"""Pipelines and hybrid layers: by hand and by published counts, what is refused; the fabric of `nodes check`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import core
from hyperpod_ray.planner import (
    PlanError,
    agreement,
    architecture,
    checked_nodes,
    fitting,
    hugging_face,
    memory,
    parallel,
    speed,
)
from hyperpod_ray.planner import published as published_rows
from hyperpod_ray.planner.answers import plan
from hyperpod_ray.planner.checked_nodes import Checked
from hyperpod_ray.planner.cluster import bill, cluster
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.pricing import price_file

DAY = datetime(2026, 11, 23, 9, tzinfo=UTC)


def outlook(*, checked: Checked | None = None, **wish: Any) -> Outlook:
    part = cluster(core.load("prod").plan).with_checked(checked)
    asked = {"model": "llama-3.1-8b", "tokens": "1T", "batch_tokens": "4M", **wish}
    return Outlook(cluster=part, job=job(Wish(**asked), None), rates=published())


def notes(look: Outlook) -> str:
    prices = price_file.recorded()
    own = bill(core.load("prod").plan, prices, day=max(price.as_of for _, _, _, price in prices.entries()))
    made = plan(look, own, deploy="", simulated=False)
    return " ".join(note for answer in made.answers for note in answer.notes)


# --- the bubble -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "layers", "micro_batches", "busy"),
    [
        ("pp=8", 128, 8, 8 / 15),  # 1F1B: (p - 1) of m + p - 1 are idle
        ("pp=8,vp=2", 128, 8, 8 / 11.5),
        ("pp=4", 80, 1e9, 1.0),
        ("pp=8", 126, 8, 126 / 128 * 8 / 15),  # 16 layers in the largest stage, 15.75 in the mean
        ("tp=8", 80, 1, 1.0),
    ],
)
def test_the_share_of_a_step_that_a_stage_works(text: str, layers: int, micro_batches: float, busy: float) -> None:
    assert parallel.parse(text).busy(layers=layers, micro_batches=micro_batches) == pytest.approx(busy)


def test_interleaving_helps_as_torchtitan_measured() -> None:
    """405B on 512 H100, 8 stages: 100 tokens per second with 1F1B, 128 interleaved."""
    shares = [parallel.parse(text).busy(layers=128, micro_batches=8) for text in ("pp=8", "pp=8,vp=2")]
    assert shares[1] / shares[0] == pytest.approx(1.28, rel=0.03)


def test_speed_falls_by_the_bubble_alone() -> None:
    setting = outlook(parallel="pp=8").setting
    assert speed.steps(setting).central == pytest.approx(
        speed.steps(replace(setting, micro_batches=float("inf"))).central * setting.busy
    )
    assert setting.busy < 0.95
    assert outlook(parallel="pp=8", batch_tokens="40M").setting.busy > setting.busy


def test_micro_batches_are_sequences_of_a_step_for_each_pipeline() -> None:
    look = outlook(parallel="tp=2,pp=4", batch_tokens="4194304", sequence=8192)
    assert look.micro_batches == 512 / (64 / 8)
    assert "stages waits" in notes(look)
    assert "Activations between stages take" in notes(look)
    assert "keeps 4 micro-batches" in notes(look)
    assert "stages waits" not in notes(outlook())


def test_an_interleaved_schedule_names_what_it_needs() -> None:
    assert "multiples of 4" in notes(outlook(parallel="pp=4,vp=2", batch_tokens=str(8192 * 16 * 5)))
    assert "do not divide" in notes(outlook(parallel="pp=4,vp=3"))
    assert "multiples" not in notes(outlook(parallel="pp=4,vp=2", batch_tokens=str(8192 * 16 * 8)))


def test_traffic_between_stages_by_hand() -> None:
    """Each token crosses twice in bf16: 16,384 bytes for a width of 4,096; a GPU has its share in both stages."""
    setting = outlook(parallel="pp=2").setting
    assert speed.stage_traffic(setting, per_node=8) == 4 * 4096 * 2
    assert speed.stage_traffic(outlook().setting, per_node=8) == 0
    # stages of four GPUs: every other boundary is inside a node
    assert speed.stage_traffic(replace(setting, gpus=8), per_node=8) == 4 * 4096 * 2 / 2


def test_traffic_between_stages_as_megatron_measured() -> None:
    """arXiv 2104.04473, 5.9: 892 GB/s between the stages of the model of 1T on 3,072 GPUs, interleaved, one direction.

    Each GPU sends its share of the activations to its own partner. The paper does not say how many parts a stage has;
    two are the fewest that interleave.
    """
    row = published_rows.rows()["megatron21-1t"]
    split = replace(row.parallel, virtual=2)
    setting = replace(fitting.setting(row), parallel=split)
    one_direction = speed.stage_traffic(setting, per_node=8) / 2 * row.speed * 3072
    assert one_direction == pytest.approx(892e9, rel=0.6)
    assert speed.stage_traffic(setting, per_node=8) * row.speed * 3072 == pytest.approx(892e9, rel=0.15)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vp=2", "vp=2 without stages"), ("pp=33", "of 32 layers"), ("pp=16,vp=3", "of 32 layers"),
        ("pp=0", "--parallel: pp=0"), ("pp=2,pp=2", "at most once"), ("pp=3", "3 divides"), ("pp=9999", "up to 1024"),
    ],
)  # fmt: skip
def test_impossible_pipelines_are_refused(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        outlook(parallel=text)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_memory_of_published_pipelines() -> None:
    points = [point for point in agreement.memories() if point.row.pp > 1]
    assert len(points) == 6
    assert all(point.inside for point in points)
    assert agreement.median_error(points) < 0.05


def test_a_stage_keeps_no_more_micro_batches_than_a_step_has() -> None:
    """405B, 8 stages, 8 micro-batches: interleaved would keep 11.5; torchtitan measured less than in 1F1B."""
    rows = {point.name: point.predicted.central for point in agreement.memories()}
    assert rows["titan-405b-interleaved"] == pytest.approx(rows["titan-405b-1f1b"])
    split = parallel.parse("pp=8,vp=2")
    assert [split.in_flight(), split.in_flight(8), split.in_flight(64)] == [11.5, 8, 11.5]
    few, many = (outlook(parallel="tp=2,pp=4,vp=2", batch_tokens=tokens) for tokens in ("131072", "4194304"))
    assert (few.in_flight, many.in_flight) == (2, 5.5)
    assert few.fit.parts["activations"] < many.fit.parts["activations"]
    assert "keeps 2 micro-batches" in notes(few)


def test_the_first_stage_keeps_as_many_micro_batches_as_there_are_stages() -> None:
    model = architecture.named("llama-3.1-70b")
    parts = {
        text: memory.parts(model, world=64, tokens=8192, recompute="none", parallel=parallel.parse(text))
        for text in ("", "pp=4", "pp=4,vp=4")
    }
    assert parts["pp=4"]["activations"] == pytest.approx(parts[""]["activations"])
    assert parts["pp=4,vp=4"]["activations"] == pytest.approx(parts[""]["activations"] * (1 + 3 / 16))
    assert parts["pp=4"]["gathered layers"] > 2 * parts[""]["gathered layers"]
    alone = memory.parts(model, world=4, tokens=8192, recompute="full", parallel=parallel.parse("pp=4"))
    assert alone["gradients"] == 0


# --- hybrids ----------------------------------------------------------------------------------------------------------

JAMBA = {
    "model_type": "jamba", "architectures": ["JambaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536,
    "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1,
    "num_experts": 16, "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_dt_rank": 256, "mamba_conv_bias": True, "tie_word_embeddings": False,
}  # fmt: skip
NEMOTRON_H = {
    "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "num_hidden_layers": 52,
    "hidden_size": 4096, "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "vocab_size": 131072, "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128,
    "n_groups": 8, "conv_kernel": 4, "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu",
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_NEXT = {
    "model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "num_hidden_layers": 48,
    "hidden_size": 2048, "intermediate_size": 5120, "num_attention_heads": 16, "num_key_value_heads": 2,
    "head_dim": 256, "vocab_size": 151936, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_key_head_dim": 128, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "tie_word_embeddings": False,
}  # fmt: skip
GRANITE = {
    "model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"], "num_hidden_layers": 40,
    "hidden_size": 4096, "intermediate_size": 768, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 100352, "layer_types": (["mamba"] * 5 + ["attention"] + ["mamba"] * 4) * 4, "mamba_n_heads": 128,
    "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2,
    "num_local_experts": 72, "num_experts_per_tok": 10, "shared_intermediate_size": 1536, "tie_word_embeddings": True,
}  # fmt: skip


def written(tmp_path: Path, config: dict[str, Any]) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("config", "parameters", "active", "layers"),
    [
        # published: 51.6B and 12B; 8.1B; 79.7B without the extra prediction head, and 3.9B; 32.2B and 9B
        (JAMBA, 51_570_323_328, 12.1e9, (28, 4)),
        (NEMOTRON_H, 8_100_852_736, 8.1e9, (24, 4)),
        (QWEN3_NEXT, 79_674_391_296, 3.87e9, (36, 12)),
        (GRANITE, 32_207_337_984, 8.8e9, (36, 4)),
    ],
    ids=["jamba", "nemotron-h", "qwen3-next", "granite-4-h-small"],
)
def test_a_hybrid_counts_its_published_parameters(
    tmp_path: Path, config: dict[str, Any], parameters: int, active: float, layers: tuple[int, int]
) -> None:
    model = hugging_face.architecture(written(tmp_path, config))
    assert model.parameters == parameters
    assert model.active == pytest.approx(active, rel=0.005)
    assert model.hybrid is not None
    assert (model.hybrid.linear, model.hybrid.attention) == layers


def test_long_sequences_cost_a_hybrid_less_than_a_model_that_attends_everywhere(tmp_path: Path) -> None:
    model = hugging_face.architecture(written(tmp_path, NEMOTRON_H))
    whole = replace(model, hybrid=None)
    assert model.attention_flop(8192) == pytest.approx(whole.attention_flop(8192) * 4 / 52)
    assert model.flop_per_token(8192) > 6 * (model.parameters - model.root)
    kept = [memory.kept_by_layers(shape) for shape in (model, whole)]
    assert 0 < kept[0] < kept[1]


def test_a_hybrid_is_planned_with_a_wider_range(tmp_path: Path) -> None:
    look = outlook(model="", config=written(tmp_path, GRANITE), parallel="ep=8")
    assert look.setting.likeness.endswith("/hybrid")
    assert "carried over" in speed.support(look.setting)
    assert "36 layers are Mamba-2" in notes(look)


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


def test_one_stage_a_node_exchanges_no_weights() -> None:
    setting = outlook(parallel="pp=8", batch_tokens="4194304").setting
    assert setting.gpus == 64
    assert speed.sharded_traffic(setting, per_node=8) == 0
    assert speed.sharded_traffic(setting, per_node=4) > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "falcon_h1"}, "attention beside Mamba-2"),
        ({"model_type": "zamba2"}, "layers share"),
        ({"model_type": "kimi_linear"}, "Kimi Delta Attention"),
        ({"layer_types": ["mamba", "conv"] * 20}, "conv"),
        ({"layer_types": ["mamba"] * 39}, "39 layers are listed, num_hidden_layers is 40"),
        ({"mamba_n_heads": None, "mamba_d_state": None}, "layers that are not attention"),
        ({"mamba_d_state": None}, "no mamba_d_state"),
        ({"mamba_d_state": "many"}, "mamba_d_state"),
        ({"attn_type_list": [0, 1] * 20, "layer_types": None}, "lightning"),
        ({"hybrid_override_pattern": "MX" * 20}, "hybrid_override_pattern: X"),
    ],
)
def test_what_a_file_does_not_say_is_refused_by_name(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        hugging_face.architecture(written(tmp_path, {**GRANITE, **change}))


def test_a_list_of_ordinary_attention_is_no_hybrid(tmp_path: Path) -> None:
    config = {key: value for key, value in GRANITE.items() if not key.startswith("mamba_")}
    model = hugging_face.architecture(written(tmp_path, {**config, "layer_types": None, "attn_type_list": [1] * 40}))
    assert model.hybrid is None


# --- the fabric -------------------------------------------------------------------------------------------------------


def checked(**more: Any) -> Checked:
    fields = {
        "at": DAY, "instance_type": "ml.p5.48xlarge", "transport": "AWS Libfabric", "all_reduce_gb_s": 360.0,
        "nodes": {"i-1": "good", "i-2": "good"},
    }  # fmt: skip
    return Checked(**{**fields, **more})


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
