"""LoRA adapters of PEFT in a checkpoint, added to the weights that they are of.

A checkpoint of such a model has `base_layer.weight`, `lora_A.NAME.weight` and `lora_B.NAME.weight` where the base has
`weight`. The scaling is no tensor: whoever exports names it.
https://huggingface.co/docs/peft/developer_guides/lora#merge-lora-weights-into-the-base-model
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hyperpod_ray_training.errors import InputError

_OF_PEFT = "base_model.model."
_FACTOR = re.compile(r"\.lora_(?P<side>[AB])\.(?P<adapter>[^.]+)\.weight$")
_WHOLE = re.compile(r"\.modules_to_save\.(?P<adapter>[^.]+)\.")


def without_adapter(keys: Mapping[str, str]) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Tell the tensors of a base from those of the adapter in it.

    Args:
        keys: Of each tensor its key in the checkpoint, by its name in the model.

    Returns:
        The same for the base alone, by its own names; and of each tensor with an adapter the keys of A and B.

    Raises:
        InputError: There are several adapters, or forms of an adapter that are not two factors of a linear layer.
    """
    if not any(".lora_" in name for name in keys):
        return dict(keys), {}
    base, adapters, others = dict[str, str](), set[str](), list[str]()
    factors: dict[str, dict[str, str]] = {}
    for name, key in keys.items():
        plain = name.removeprefix(_OF_PEFT)
        if factor := _FACTOR.search(plain):
            adapters.add(factor["adapter"])
            factors.setdefault(f"{plain[: factor.start()]}.weight", {})[factor["side"]] = key
        elif whole := _WHOLE.search(plain):
            adapters.add(whole["adapter"])
            base[f"{plain[: whole.start()]}.{plain[whole.end() :]}"] = key
        elif ".lora_" in plain:
            others.append(name)
        elif ".original_module." not in plain:
            base[plain.replace(".base_layer.", ".")] = key
    others += [name for name, sides in factors.items() if len(sides) < 2 or name not in base]
    if others or len(adapters) > 1:
        raise InputError(
            f"export: the checkpoint has {others[0] if others else 'adapters ' + ', '.join(sorted(adapters))}",
            expected="one LoRA adapter, in linear layers",
            fix="merge it with peft (merge_and_unload), and save that model",
        )
    return base, {name: (sides["A"], sides["B"]) for name, sides in factors.items()}


class Adapter:
    """Factors of a LoRA adapter, to be added to weights: weight + scaling · B · A, in float32.

    Args:
        factors: Of each tensor of the base the keys of A, shape (rank, inputs), and B, shape (outputs, rank).
        scaling: `lora_alpha / r`; with `use_rslora`, `lora_alpha / sqrt(r)`.
        model: Of transformers, which says what weights are (inputs, outputs), as those of GPT-2's `Conv1D`.
    """

    def __init__(self, factors: Mapping[str, tuple[str, str]], *, scaling: float, model: Any) -> None:
        self.factors, self.scaling, self.model = factors, scaling, model

    def keys(self, names: Iterable[str]) -> list[str]:
        """The keys of the factors of some tensors."""
        return [key for name in names for key in self.factors.get(name, ())]

    def merged(self, name: str, weight: torch.Tensor, content: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """A weight with what the adapter adds; `content` has the factors by their keys."""
        if name not in self.factors:
            return weight
        a, b = (content[key].float() for key in self.factors[name])
        transposed = type(self.model.get_submodule(name.rpartition(".")[0])).__name__ == "Conv1D"
        return (weight.float() + self.scaling * ((b @ a).T if transposed else b @ a)).to(weight.dtype)
