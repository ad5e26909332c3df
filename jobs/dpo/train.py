"""Preference tuning with LoRA: TRL's `DPOTrainer`, in a run that survives.

`--data` is a `.jsonl` file, or a folder of them, with `prompt`, `chosen` and `rejected`. The reference model is the
model without its adapter, so that no second one is in memory. The same line again resumes the run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

from hyperpod_ray_training import InputError, add_arguments, main_of, run_from
from hyperpod_ray_training.huggingface import survive


def files(source: str) -> list[str]:
    """The `.jsonl` files of a place."""
    place = Path(source)
    listed = sorted(map(str, place.glob("*.jsonl"))) if place.is_dir() else [source] if place.is_file() else []
    if not listed:
        raise InputError(f"--data: {source} has no file", expected="*.jsonl", fix="correct the place")
    return listed


def train(config: dict[str, Any]) -> None:
    """The training loop of one worker."""
    on_gpu = torch.cuda.is_available() and config["gpus_per_worker"] > 0
    if not on_gpu:
        torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(config["model"])
    model = AutoModelForCausalLM.from_pretrained(config["model"], dtype=torch.bfloat16 if on_gpu else torch.float32)
    trainer = DPOTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=load_dataset("json", data_files=files(config["data"]), split="train"),
        peft_config=LoraConfig(
            r=config["rank"], lora_alpha=2 * config["rank"], lora_dropout=0.05, target_modules="all-linear"
        ),
        args=DPOConfig(
            output_dir=str(Path(config["scratch"])), save_strategy="no", report_to="none", logging_steps=1,
            disable_tqdm=True, num_train_epochs=config["epochs"], max_length=config["sequence"],
            per_device_train_batch_size=config["batch"], gradient_accumulation_steps=config["accumulate"],
            beta=config["beta"], learning_rate=config["learning_rate"], lr_scheduler_type="cosine",
            warmup_steps=config["warm_up"], bf16=on_gpu, use_cpu=not on_gpu, seed=config["seed"],
            gradient_checkpointing=on_gpu,
        ),
    )  # fmt: skip
    survive(trainer, config["run"]).train()


def main() -> None:
    """Read the arguments and fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--model", required=True, help="of Hugging Face, by name or folder")
    group.add_argument("--data", required=True, help="a .jsonl file or a folder of them")
    group.add_argument("--rank", type=int, default=16, help="of LoRA's matrices (16)")
    group.add_argument("--sequence", type=int, default=2048, help="tokens, longer ones are cut (2048)")
    group.add_argument("--batch", type=int, default=4, help="sequences of a worker at a time (4)")
    group.add_argument("--accumulate", type=int, default=4, help="such batches in a step (4)")
    group.add_argument("--epochs", type=int, default=1)
    group.add_argument("--learning-rate", type=float, default=5e-6)
    group.add_argument("--beta", type=float, default=0.1, help="how far the model stays near the reference (0.1)")
    group.add_argument("--warm-up", type=int, default=10, help="steps (10)")
    group.add_argument("--scratch", default="/tmp/trainer", help="folder for what TRL writes beside the run")  # noqa: S108
    group.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    config = {key: value for key, value in vars(arguments).items() if key not in {"storage", "name", "workers", "best"}}
    result = run_from(arguments).fit(
        train,
        config=config,
        workers=arguments.workers,
        gpus_per_worker=arguments.gpus_per_worker,
        cpus_per_worker=arguments.cpus_per_worker,
    )
    print(f"RESULT {result.metrics}")


if __name__ == "__main__":
    main_of(main)
