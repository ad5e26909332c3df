"""What tests of `checked_nodes`, `hugging_face`, `parallel`, `pipeline`, `speed` share."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hyperpod_ray import core
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


NEMOTRON_H = {
    "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "num_hidden_layers": 52,
    "hidden_size": 4096, "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "vocab_size": 131072, "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128,
    "n_groups": 8, "conv_kernel": 4, "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu",
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", "tie_word_embeddings": False,
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


def checked(**more: Any) -> Checked:
    fields = {
        "at": DAY, "instance_type": "ml.p5.48xlarge", "transport": "AWS Libfabric", "all_reduce_gb_s": 360.0,
        "nodes": {"i-1": "good", "i-2": "good"},
    }  # fmt: skip
    return Checked(**{**fields, **more})
