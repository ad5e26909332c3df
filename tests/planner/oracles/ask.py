"""Asks two other programs, `dlcalc` and `llm-analysis`, about runs that the planner answers too.

It runs in an environment of its own (`make oracles`): both pin old packages. It imports nothing of this project:

    .venv-oracles/bin/python tests/planner/oracles/ask.py > tests/planner/oracles/answers.json

The shapes of models come from the planner's data file: what is compared is what the programs make of them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

MODELS = Path(__file__).resolve().parents[3] / "hyperpod_ray" / "planner" / "data" / "models.yaml"
GIB = float(2**30)

MEMORY = (("llama-3.2-1b", 8), ("llama-3.1-8b", 8), ("llama-3.1-8b", 128), ("llama-3.1-70b", 64))
"""Model, GPUs; one sequence of 8,192 tokens for each GPU."""
STEPS = (
    ("llama-3.1-8b", "p5.48xlarge", 128, 1, 1), ("llama-3.1-8b", "p5.48xlarge", 128, 1, 16),
    ("llama-3.1-70b", "p5.48xlarge", 64, 1, 1), ("llama-3.1-70b", "p5.48xlarge", 64, 1, 16),
    ("llama-3.1-70b", "p5.48xlarge", 64, 8, 16), ("llama-3.1-70b", "p5.48xlarge", 256, 8, 16),
    ("llama-3.1-8b", "p4de.24xlarge", 64, 1, 1), ("llama-3.1-8b", "p4de.24xlarge", 64, 1, 16),
    ("llama-3.1-70b", "p4de.24xlarge", 64, 1, 1), ("llama-3.1-70b", "p4de.24xlarge", 64, 1, 16),
)  # fmt: skip
"""Model, instance type, GPUs, tensor parallelism, sequences of 8,192 tokens for each replica and step."""
HOURS = (("llama-2-7b", 4096, 2.0e12), ("llama-2-13b", 4096, 2.0e12), ("llama-65b", 2048, 1.4e12))
"""Model, sequence, tokens; on 2,048 A100. llm-analysis counts feed-forward layers of 8/3 of the width only."""
EFFICIENCY = 0.5
"""Share of the dense rate that llm-analysis is given."""


def shapes() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(MODELS.read_text(encoding="utf-8"))["models"]
    return found


# --- llm-analysis -----------------------------------------------------------------------------------------------------


def _analysis(name: str, *, world: int, gpu: str, sequence: int) -> Any:
    config = importlib.import_module("llm_analysis.config")
    analysis = importlib.import_module("llm_analysis.analysis")
    shape = shapes()[name]
    model = config.ModelConfig(
        name=name, num_layers=shape["layers"], n_head=shape["heads"], hidden_dim=shape["width"],
        vocab_size=shape["vocabulary"], max_seq_len=sequence, num_key_value_heads=shape["kv_heads"],
    )  # fmt: skip
    # it knows two matrices where a gated layer has three; its constructor takes whole multiples of the width only
    model.ffn_embed_dim = shape["feed"] * 3 // 2
    model.expansion_ratio = model.ffn_embed_dim / shape["width"]
    return analysis.LLMAnalysis(
        model,
        config.get_gpu_config_by_name(gpu),
        parallelism_config=config.ParallelismConfig(dp_size=world),
        flops_efficiency=EFFICIENCY,
    )


def llm_analysis() -> dict[str, Any]:
    analysis = importlib.import_module("llm_analysis.analysis")
    options = {"ds_zero": analysis.DSZeRO.STAGE_3, "batch_size_per_gpu": 1}
    full = analysis.ActivationRecomputation.FULL
    memory = []
    for name, world in MEMORY:
        made = _analysis(name, world=world, gpu="h100-sxm-80gb", sequence=8192)
        found = made.training(seq_len=8192, activation_recomputation=full, **options)
        logits = found["activation_memory_embedding_output_per_gpu"]
        memory.append(
            {
                "model": name,
                "world": world,
                "parameters": found["num_params_total"],
                "bf16_weights": found["weight_memory_per_gpu"] / GIB,
                "master_and_moments": found["optimizer_state_memory_per_gpu"] / GIB,
                "gradients": found["gradient_memory_per_gpu"] / GIB,
                # not activation_memory_per_gpu: of a micro-batch of one it counts the logits twice
                "layer_inputs": (found["activation_memory_batch_size_1"] - logits) / GIB,
                "bf16_logits": logits / GIB,
            }
        )
    hours = []
    for name, sequence, tokens in HOURS:
        made = _analysis(name, world=2048, gpu="a100-sxm-80gb", sequence=sequence)
        found = made.training(seq_len=sequence, total_num_tokens=int(tokens), gradient_accumulation_steps=1, **options)
        hours.append(
            {
                "model": name,
                "sequence": sequence,
                "tokens": tokens,
                "efficiency": EFFICIENCY,
                "gpu_hours": found["gpu_hours"],
                "flop_per_token": found["num_flops_total_per_micro_batch"] / sequence,
            }
        )
    return {"memory": memory, "hours": hours}


# --- dlcalc -----------------------------------------------------------------------------------------------------------


def _config(
    name: str, *, world: int, kind: str = "p5.48xlarge", recompute: str = "selective", tp: int = 1, sequences: int = 1
) -> dict[str, Any]:
    shape = shapes()[name]
    return {
        "model": {
            "n_layers": shape["layers"], "hidden_sz": shape["width"], "inter_sz": shape["feed"],
            "n_q_heads": shape["heads"], "n_kv_heads": shape["kv_heads"], "head_dim": shape["head_width"],
            "vocab_sz": shape["vocabulary"], "glu": True, "rotary_embeds": True, "dropout": False,
            "tie_embeddings": bool(shape.get("tied")),
        },
        "parallelism": {
            "tp": tp, "pp": 1, "dp": world // tp, "vpp": 1, "sp": True, "zero_level": 1,
            "n_param_buckets": shape["layers"],
        },
        "performance": {"activation_checkpointing_type": recompute},
        "data": {"gbs": sequences * world // tp, "seqlen": 8192, "microbatch_sz": 1},
        "hardware": {"node_type": kind},
    }  # fmt: skip


def _printed(config: dict[str, Any]) -> str:
    """What `3dtrn FILE` prints."""
    stream = io.StringIO()
    before = sys.argv
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        sys.argv = ["3dtrn", str(file)]
        try:
            with contextlib.redirect_stdout(stream):
                importlib.import_module("dlcalc.training_3d").main()
        finally:
            sys.argv = before
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def _number(text: str, pattern: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"dlcalc printed no {pattern}")
    return float(match[1])


def dlcalc() -> dict[str, Any]:
    memory = []
    for name, world in MEMORY:
        found: dict[str, Any] = {"model": name, "world": world}
        for recompute in ("selective", "full"):
            text = _printed(_config(name, world=world, recompute=recompute))
            found[f"activations_{recompute}"] = _number(text, r"Total Activation Memory\W+([\d.]+) GiB")
            found["moments"] = sum(
                _number(text, rf"{part}\s*: numel: [\d.]+ B, bytes: ([\d.]+) GiB")
                for part in ("exp_avg", "exp_avg_squared")
            )
            found["parameters_billion"] = _number(text, r"params\s+: numel: ([\d.]+) B")
        memory.append(found)
    steps = []
    for name, kind, world, tp, sequences in STEPS:
        text = _printed(_config(name, world=world, kind=kind, tp=tp, sequences=sequences))
        seconds = _number(text, r"Iteration Time\W+([\d.]+)\s*seconds")
        steps.append({
            "model": name, "type": kind, "world": world, "tp": tp, "sequences": sequences, "step_seconds": seconds,
            "tokens_per_second_and_gpu": round(sequences * 8192 / tp / seconds, 2),
        })  # fmt: skip
    return {"memory": memory, "steps": steps}


def main() -> None:
    importlib.import_module("llm_analysis.logger").logger.setLevel("ERROR")
    answers = {
        "versions": {name: version(name) for name in ("dlcalc", "llm-analysis")},
        "as_of": str(date.today()),
        "command": ".venv-oracles/bin/python tests/planner/oracles/ask.py",
        "dlcalc": dlcalc(),
        "llm-analysis": llm_analysis(),
    }
    sys.stdout.write(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
