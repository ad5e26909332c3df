"""A model that was tuned with PEFT's LoRA comes out as PEFT itself merges it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.export import export
from hyperpod_ray_training.lora import without_adapter
from tests.resilience.test_export import trained

RANK, ALPHA = 4, 6


def llama() -> Any:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1,
        )
    )  # fmt: skip


def gpt() -> Any:
    """Its weights are (inputs, outputs), some of them square."""
    return GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=2, n_head=2))


def tuned(base: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(base, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", **more))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize(("make", "more"), [(llama, {}), (llama, {"modules_to_save": ["lm_head"]}), (gpt, {})])
@pytest.mark.parametrize("largest_file", [5_000_000_000, 4_000])
def test_what_comes_out_is_what_peft_merges(tmp_path: Path, make: Any, more: dict[str, Any], largest_file: int) -> None:
    torch.manual_seed(0)
    base = make()
    base.save_pretrained(tmp_path / "base")
    before = load_file(tmp_path / "base" / "model.safetensors")
    model = tuned(base, **more)
    run = trained(tmp_path / "runs", model, steps=2)
    written = export(
        run, tmp_path / "out", like=tmp_path / "base", lora_scaling=ALPHA / RANK, largest_file=largest_file
    )
    tensors: dict[str, torch.Tensor] = {}
    for file in written["files"]:
        tensors |= load_file(tmp_path / "out" / file)
    merged = model.merge_and_unload().state_dict()
    assert tensors.keys() >= before.keys() - {"lm_head.weight"}
    changed = set()
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, merged[name], msg=lambda said, name=name: f"{name}: {said}")
        if name in before and not torch.equal(tensor, before[name]):
            changed.add(name)
    assert {name for name in before if name.endswith(("q_proj.weight", "c_attn.weight", "c_proj.weight"))} <= changed
    assert not any("norm" in name or "ln_" in name or "embed" in name for name in changed), "the base is as it was"
    again = type(base).from_pretrained(tmp_path / "out")
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize(
    ("scaling", "like", "said"),
    [
        (None, True, "the checkpoint has a LoRA adapter. Expected its base and its scaling"),
        (2.0, False, "the checkpoint has a LoRA adapter. Expected its base and its scaling"),
        (float("nan"), True, "--lora-scaling nan. Expected a number"),
        (float("inf"), True, "--lora-scaling inf. Expected a number"),
    ],
)
def test_a_scaling_that_nobody_named_is_refused(tmp_path: Path, scaling: Any, like: bool, said: str) -> None:
    base = llama()
    base.save_pretrained(tmp_path / "base")
    run = trained(tmp_path / "runs", tuned(base), steps=2)
    with pytest.raises(InputError, match=said.replace(".", r"\.")):
        export(run, tmp_path / "out", like=tmp_path / "base" if like else None, lora_scaling=scaling)
    assert not (tmp_path / "out").exists()


def test_a_scaling_of_a_model_without_an_adapter_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path / "runs", nn.Linear(2, 2), steps=2)
    with pytest.raises(InputError, match="of a checkpoint without a LoRA adapter"):
        export(run, tmp_path / "out", lora_scaling=2.0)


@pytest.mark.parametrize("form", [{"use_dora": True}, {"second": True}, {"embedding": True}])
def test_other_forms_of_adapters_are_refused_by_their_name(form: dict[str, Any]) -> None:
    base = llama()
    if "embedding" in form:
        model = get_peft_model(base, LoraConfig(r=2, target_modules=["embed_tokens", "q_proj"]))
    else:
        model = tuned(base, use_dora=form.get("use_dora", False))
    if "second" in form:
        model.add_adapter("second", LoraConfig(r=2, target_modules=["q_proj"]))
    keys = {name: f"model.{name}" for name in model.state_dict()}
    with pytest.raises(InputError, match=r"lora_|adapters default, second") as refusal:
        without_adapter(keys)
    assert "merge_and_unload" in str(refusal.value)


def test_a_model_of_ones_own_that_wraps_an_adapter_needs_its_prefix_only() -> None:
    names = ["net.q.base_layer.weight", "net.q.base_layer.bias", "net.q.lora_A.mine.weight", "net.q.lora_B.mine.weight"]
    base, factors = without_adapter({name: f"model.{name}" for name in [*names, "net.norm.weight"]})
    assert base == {
        "net.q.weight": "model.net.q.base_layer.weight", "net.q.bias": "model.net.q.base_layer.bias",
        "net.norm.weight": "model.net.norm.weight",
    }  # fmt: skip
    assert factors == {"net.q.weight": ("model.net.q.lora_A.mine.weight", "model.net.q.lora_B.mine.weight")}
    with pytest.raises(InputError, match=r"net\.q\.weight"):
        without_adapter({name: name for name in names if "lora_B" not in name})
