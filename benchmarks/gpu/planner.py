"""Memory and speed of real models of transformers, sharded by FSDP2 in a world of one, beside what the planner says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from benchmarks.gpu.__main__ import PROJECT, check_of

MODELS = ("llama-3.2-1b", "llama-3.2-3b")
LENGTHS = (1024, 2048, 4096, 8192)
TUNED = {"llama-3.2-1b": ((4096, 2), (8192, 1)), "llama-3.2-3b": ((4096, 1),), "small": ((32, 2),)}
"""Of each model: lengths, and sequences of one pass. Layers and loss are compiled, and four passes make a step."""
PASSES = 4
STEPS, WARM_UP = 6, 2
GPU = "H100"


def measure(device: str, *, small: bool) -> dict[str, Any]:
    """Each model in a process of its own."""
    rows = []
    names = ("small",) if small else MODELS
    for name, loop in [(name, loop) for loop in ("tuned", "plain") for name in names]:
        code = f"from benchmarks.gpu import planner; planner.model_main({name!r}, {device!r}, {loop!r})"
        done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        rows += lines or [{"model": name, "not run": (done.stderr or done.stdout)[-1500:]}]
        if done.returncode and lines:
            rows.append({"model": name, "not run": done.stderr[-1500:]})
    checks = []
    for row in rows:
        if "not run" in row:
            checks.append(check_of(row["model"], row["not run"], "measured", met=False))
        elif device == "cuda":
            name = f"{row['model']}, {row['length']} tokens, {row['recompute']}, {row['loop']} loop"
            near = (
                row["loop"] == "tuned" or abs(row["error %"]) <= 5
            )
            checks.append(
                check_of(
                    f"{name}: memory",
                    f"{row['GiB']} GiB, planned {row['range GiB']} ({row['error %']:+} %), {row['in range']}",
                    "inside" if row["loop"] == "tuned" else "<= 5 % and inside",
                    met=near and row["in range"] == "inside",
                )
            )
            checks.append(
                check_of(
                    f"{name}: tokens/s",
                    f"{row['tokens/s']}, planned {row['planned tokens/s']}",
                    "inside",
                    met=row["speed"] == "inside",
                )
            )
    return {"rows": rows, "checks": checks}


def model_main(name: str, device: str, loop: str) -> None:
    """Train a few steps at each length; a line of JSON for each."""
    import torch

    from hyperpod_ray.planner import architecture, memory, speed

    small = name == "small"
    shape = architecture.named("llama-3.2-1b" if small else name)
    model, criterion = _sharded(shape, device, small=small, tuned=loop == "tuned")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device == "cuda")
    plain = [(length, 1) for length in ((32, 64) if small else LENGTHS)]
    for length, sequences in TUNED[name] if loop == "tuned" else plain:
        tokens = length * sequences
        passes = PASSES if loop == "tuned" else 1
        plan = memory.fit(shape, gpu=GPU, world=1, tokens=tokens, micro_batches=passes)
        choice: Any = "none" if plan.recompute == "none" else "full"
        plan = memory.fit(shape, gpu=GPU, world=1, tokens=tokens, micro_batches=passes, recompute=choice)
        if choice == "full":
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        else:
            model.gradient_checkpointing_disable()
        setting = speed.Setting(model=shape, gpu=GPU, sequence=length, gpus=1, recompute=choice)
        row: dict[str, Any] = {"model": name, "loop": loop, "length": length, "sequences": f"{sequences} x {passes}"}
        row["recompute"] = choice
        symbols = torch.randint(0, model.config.vocab_size, (sequences, length + 1), device=device)
        try:
            row |= _trained(model, optimizer, criterion, symbols, passes=passes)
        except torch.OutOfMemoryError as error:
            sys.stdout.write(json.dumps({"model": name, "not run": f"{length} tokens: {str(error)[:200]}"}) + "\n")
            continue
        span, steps = plan.span, speed.steps(setting)
        inside = span.low <= row["GiB"] <= span.high  # what is allocated: what is reserved beside it gives way
        row |= {
            "planned GiB": round(plan.total, 1),
            "range GiB": f"{span.low:.1f}-{span.high:.1f}",
            "error %": round(100 * (plan.total / row["GiB"] - 1), 1) if row["GiB"] else 0.0,
            "in range": "inside" if inside else "outside",
            "planned tokens/s": f"{steps.central:.0f} ({steps.low:.0f}-{steps.high:.0f})",
            "speed": "inside" if steps.low <= row["tokens/s"] <= steps.high else "outside",
            "parts GiB": json.dumps({key: round(value, 2) for key, value in plan.parts.items() if value}),
        }
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


def _sharded(shape: Any, device: str, *, small: bool, tuned: bool) -> tuple[Any, Any]:
    """The model, sharded in a world of one, and its loss; layers and loss are compiled where it is tuned."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=512 if small else shape.vocabulary,
        hidden_size=64 if small else shape.width,
        intermediate_size=128 if small else shape.feed,
        num_hidden_layers=2 if small else shape.layers,
        num_attention_heads=2 if small else shape.heads,
        num_key_value_heads=1 if small else shape.kv_heads,
        head_dim=32 if small else shape.head_width,
        max_position_embeddings=131072,
        tie_word_embeddings=shape.tied,
        attn_implementation="sdpa",
        use_cache=False,
    )
    on_gpu = device == "cuda"
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh(device, (1,))
    torch.manual_seed(0)
    with torch.device(device):
        model = LlamaForCausalLM(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if not small and parameters != shape.parameters:
        raise AssertionError(f"{shape.name}: {parameters} parameters here, {shape.parameters} in the planner")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    criterion = _loss
    if tuned and on_gpu:
        criterion = torch.compile(_loss)
        for index, layer in enumerate(model.model.layers):
            model.model.layers[index] = torch.compile(layer)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.train()
    return model, criterion


def _loss(logits: Any, targets: Any) -> Any:
    from torch.nn import functional

    return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def _trained(model: Any, optimizer: Any, criterion: Any, symbols: Any, *, passes: int) -> dict[str, Any]:
    import torch

    on_gpu = symbols.is_cuda
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begin = 0.0
    for step in range(STEPS):
        if step == WARM_UP:
            if on_gpu:
                torch.cuda.synchronize()
            begin = time.perf_counter()
        for _ in range(passes):
            logits = model(symbols[:, :-1]).logits
            loss = criterion(logits, symbols[:, 1:])
            loss.backward()
            del logits
        optimizer.step()
        optimizer.zero_grad()
        float(loss)
    seconds = (time.perf_counter() - begin) / (STEPS - WARM_UP)
    gib = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0
    reserved = torch.cuda.max_memory_reserved() / 2**30 if on_gpu else 0.0
    tokens = passes * symbols[:, 1:].numel()
    return {"GiB": round(gib, 2), "reserved GiB": round(reserved, 2), "tokens/s": round(tokens / seconds)}
