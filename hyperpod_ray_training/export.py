"""A run's model out of a checkpoint: `safetensors` files, and with `--like` a folder of Hugging Face.

    python -m hyperpod_ray_training.export /fsx/runs/first /fsx/models/first --like /fsx/models/base

`hyperpod-ray runs export` starts it, here or as a job. It runs wherever torch and safetensors are: in a job, or on a
laptop with a folder that `hyperpod-ray runs pull` brought.
One file's tensors are in memory at a time. The folder appears when it is whole.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from hyperpod_ray_training.checkpoint import READABLE, format_of
from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.folder import METADATA, POINTER, RunFolder
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.lora import Adapter, without_adapter
from hyperpod_ray_training.run import main_of
from hyperpod_ray_training.state import MODEL
from hyperpod_ray_training.writers import reader_for

LARGEST_FILE = 5_000_000_000
"""Bytes of tensors in a file, as Hugging Face cuts them."""
WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf"}


def export(
    source: str, target: Path, *, step: int | None = None, rank: int | None = None, prefix: str = "",
    like: Path | None = None, lora_scaling: float | None = None, largest_file: int = LARGEST_FILE,
) -> dict[str, Any]:  # fmt: skip
    """Write the model of a checkpoint and return what was written.

    Args:
        source: A run's folder, or one checkpoint in it.
        target: A folder that is not there.
        step: Of the checkpoint. Default: the newest that is whole.
        rank: Whose tensors to take where each rank saved its own.
        prefix: Part of the model: names that begin so, without it.
        like: A folder of Hugging Face, whose configuration and tokenizer the new one gets; the names must be its own.
        lora_scaling: `lora_alpha / r` of the LoRA adapter that the model was trained with, to add it to the weights.
        largest_file: Bytes of tensors in one file.
    """
    _require_safetensors()
    if target.exists():
        raise InputError(f"export: {target} exists", expected="a new folder", fix="name another one, or remove it")
    folder, name = _checkpoint(source, step)
    reader = reader_for(folder, name)
    metadata = reader.read_metadata()
    if format_of(metadata) not in READABLE:
        raise InputError(
            f"export: {name} is of format {format_of(metadata)}", expected=f"one of {READABLE}",
            fix="use the version of the library that wrote it",
        )  # fmt: skip
    keys, factors = without_adapter(_model_keys(metadata, rank=rank, prefix=prefix))
    _refuse_scaling(lora_scaling, adapter=bool(factors), like=like)
    tensors = {saved_as: _tensor(metadata, key) for saved_as, key in keys.items()}
    model = None if like is None else _model_like(like)
    published = _Published(model, Adapter(factors, scaling=lora_scaling or 0.0, model=model))
    if model is not None:
        published.refuse_other_names({saved_as: tuple(tensor.size) for saved_as, tensor in tensors.items()})
    unfinished = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    files = _parted(tensors, largest_file)
    weight_map: dict[str, str] = {}
    for file, names in files.items():
        chosen = {saved_as: keys[saved_as] for saved_as in names}
        weight_map |= dict.fromkeys(_write(unfinished / file, chosen, reader, metadata, published), file)
    published.refuse_half_converted(weight_map)
    size = sum(map(_bytes, tensors.values()))
    if len(files) > 1:
        index = {"metadata": {"total_size": size}, "weight_map": weight_map}
        (unfinished / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    for path in _beside_weights(like):
        shutil.copy2(path, unfinished / path.name)
    unfinished.rename(target)
    return {"checkpoint": folder.at(name), "tensors": len(weight_map), "bytes": size, "files": sorted(files)}


def _require_safetensors() -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise InputError(
            "export: this Python has no safetensors", expected="the package that writes the files",
            fix="pip install safetensors; in a job: hyperpod-ray submit ENV --package safetensors==0.8.0 -- "
            "python -m hyperpod_ray_training.export RUN FOLDER",
        )  # fmt: skip


def _refuse_scaling(scaling: float | None, *, adapter: bool, like: Path | None) -> None:
    """Refuse an adapter whose scaling or base is unknown, and a scaling of nothing."""
    if adapter and (scaling is None or like is None):
        raise InputError(
            "export: the checkpoint has a LoRA adapter", expected="its base and its scaling: no tensor says them",
            fix="--like BASE --lora-scaling lora_alpha/r, such as 2; with use_rslora lora_alpha/sqrt(r)",
        )  # fmt: skip
    if scaling is not None and not (adapter and math.isfinite(scaling)):
        raise InputError(
            f"export: --lora-scaling {scaling}" + ("" if adapter else " of a checkpoint without a LoRA adapter"),
            expected="a number, for a checkpoint with one", fix="correct the option, or leave it out",
        )  # fmt: skip


def _checkpoint(source: str, step: int | None) -> tuple[RunFolder, str]:
    """The folder of the run and the name of the checkpoint to read, which is whole by its checksums."""
    folder, names = RunFolder(source), []
    if folder.fs.exists(folder.at(METADATA)) or folder.fs.exists(folder.at(POINTER)):
        parent, _, name = (folder.path if folder.local else folder.url).rpartition("/")
        folder, names = RunFolder(parent), [name]  # one checkpoint; `runs pull` names its copy as the user says
        if step is not None and folder.about(name).get("step") != step:
            names = []
    else:
        names = [candidate.name for candidate in folder.checkpoints() if step in {None, candidate.step}]
    troubles = []
    for name in names:
        if folder.fs.exists(folder.at(name, POINTER)):
            troubles.append(f"{name} is in the managed tier, which only the run's own ranks read")
            continue
        trouble = folder.why_unusable(name) or "; ".join(folder.spoilt_files(name, rank=0, world=1))
        if not trouble:
            return folder, name
        troubles.append(f"{name}: {trouble}")
        log(f"export: {name} is passed over: {trouble}")
    suffix = f" of step {step}" if step is not None else ""
    raise InputError(
        f"export: {source} has no usable checkpoint{suffix}" + (f" ({'; '.join(troubles)})" if troubles else ""),
        expected="the folder of a run with a complete checkpoint",
        fix=f"list it, and give the folder of a run or of one checkpoint{', or another --step' if step else ''}",
    )


def _model_keys(metadata: Metadata, *, rank: int | None, prefix: str) -> dict[str, str]:
    """Of each tensor of the model, its name in the new files and its key in the checkpoint."""
    keys: dict[str, str] = {}
    of_ranks: dict[str, dict[int, str]] = {}
    for key, stored in metadata.state_dict_metadata.items():
        if not isinstance(stored, TensorStorageMetadata):
            continue
        if key.startswith(f"{MODEL}."):
            keys[key.removeprefix(f"{MODEL}.")] = key
        elif key.startswith("ranks.rank-"):
            _, owner, name = key.split(".", 2)
            if name.startswith(f"{MODEL}."):
                of_ranks.setdefault(name.removeprefix(f"{MODEL}."), {})[int(owner.removeprefix("rank-"))] = key
    keys = {name: key for name, key in keys.items() if name.startswith(prefix)}
    of_ranks = {name: by_rank for name, by_rank in of_ranks.items() if name.startswith(prefix)}
    if of_ranks and rank is None:
        ranks = sorted({owner for by_rank in of_ranks.values() for owner in by_rank})
        raise InputError(
            f"export: ranks {', '.join(map(str, ranks))} saved {', '.join(list(of_ranks)[:3])} each for itself",
            expected="one of them: stages of a pipeline and local experts are not one model",
            fix=f"export each with --rank N, such as --rank {ranks[0]}",
        )
    keys |= {name: by_rank[rank] for name, by_rank in of_ranks.items() if rank is not None and rank in by_rank}
    if not keys:
        begins = sorted({key.split(".")[1] for key in metadata.state_dict_metadata if key.startswith(f"{MODEL}.")})
        raise InputError(
            "export: no tensor of the model" + (f" begins with '{prefix}'" if prefix else ""),
            expected=f"a part of its names: {', '.join(begins[:8])}",
            fix="correct --prefix or --rank",
        )
    return {name.removeprefix(prefix): key for name, key in keys.items()}


def _tensor(metadata: Metadata, key: str) -> TensorStorageMetadata:
    stored = metadata.state_dict_metadata[key]
    assert isinstance(stored, TensorStorageMetadata)  # noqa: S101 - `_model_keys` has looked
    return stored


def _bytes(tensor: TensorStorageMetadata) -> int:
    return int(math.prod(tensor.size) * tensor.properties.dtype.itemsize)


def _parted(tensors: Mapping[str, TensorStorageMetadata], largest: int) -> dict[str, list[str]]:
    """The files with the names of their tensors, in the order of the names; a part of a layer stays in one file."""
    parts: list[list[str]] = [[]]
    size = 0
    for _, group in itertools.groupby(sorted(tensors), key=lambda name: name.split(".")[:-2] or [name]):
        names = list(group)
        bytes_of_group = sum(_bytes(tensors[name]) for name in names)
        if parts[-1] and size + bytes_of_group > largest:
            parts.append([])
            size = 0
        parts[-1] += names
        size += bytes_of_group
    if len(parts) == 1:
        return {"model.safetensors": parts[0]}
    return {f"model-{number:05d}-of-{len(parts):05d}.safetensors": names for number, names in enumerate(parts, 1)}


def _write(path: Path, keys: Mapping[str, str], reader: Any, metadata: Metadata, published: _Published) -> list[str]:
    """Write one file; the names of its tensors."""
    from safetensors.torch import save_file

    adapter = published.adapter
    stored = {key: _tensor(metadata, key) for key in [*keys.values(), *adapter.keys(keys)]}
    content = {key: torch.empty(tuple(tensor.size), dtype=tensor.properties.dtype) for key, tensor in stored.items()}
    dcp.load(content, storage_reader=reader, no_dist=True)
    whole = {name: adapter.merged(name, content.pop(key), content) for name, key in keys.items()}
    converted = published.converted(whole)
    path.touch()
    mode = path.stat().st_mode  # safetensors gives its file to the owner alone; on a shared folder others read it
    save_file(converted, path, metadata={"format": "pt"})
    path.chmod(mode)
    return sorted(converted)


# ---- Hugging Face ----


def _beside_weights(like: Path | None) -> Iterable[Path]:
    """Configuration, tokenizer and code of a folder; no weights, and no index of them."""
    if like is None:
        return []
    return [path for path in sorted(like.iterdir())
            if path.is_file() and path.suffix not in WEIGHTS and not path.name.endswith(".index.json")]  # fmt: skip


def _model_like(like: Path) -> Any:
    """The model that a folder describes, without its weights."""
    if not (like / "config.json").is_file():
        raise InputError(
            f"export: --like {like} has no config.json", expected="a folder of Hugging Face", fix="correct the folder"
        )
    import transformers

    config = transformers.AutoConfig.from_pretrained(like)
    architecture = next(iter(config.architectures or ()), "")
    model_class = getattr(transformers, architecture, None)
    if model_class is None:
        raise InputError(
            f"export: config.json of {like} names the class '{architecture}'", expected="a class of transformers",
            fix="export without --like, and copy the configuration yourself",
        )  # fmt: skip
    with torch.device("meta"):
        model = model_class(config)
    model.tie_weights()
    return model


def _by_itself(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with memory of its own: the format has no views, as parts of one tensor are."""
    if tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


class _Published:
    """The names and forms in which a model's tensors are published, which transformers' classes convert to their own.

    A mixture of experts is published expert by expert, and trained as one tensor: other software reads the former.

    Args:
        model: Of transformers, without weights. With None, names stay as the checkpoint has them.
        adapter: What is added to the weights first.
    """

    def __init__(self, model: Any, adapter: Adapter) -> None:
        self.model, self.adapter, self.expected = model, adapter, set[str]()

    def refuse_other_names(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Refuse tensors that the class does not have: it would begin at random, with a warning."""
        groups: dict[int, set[str]] = {}
        expected = self.model.state_dict(keep_vars=True)
        for name, tensor in expected.items():
            groups.setdefault(id(tensor), set()).add(name)
        problems = [f"{min(alike)} is missing" for alike in groups.values() if not alike & set(shapes)]
        problems += [f"{name} is not in it" for name in sorted(shapes) if name not in expected]
        problems += [f"{name} is {list(shape)}, not {list(expected[name].shape)}"
                     for name, shape in sorted(shapes.items())
                     if name in expected and tuple(expected[name].shape) != shape]  # fmt: skip
        if problems:
            suffix = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
            architecture = type(self.model).__name__
            raise InputError(
                f"export: the checkpoint is no {architecture}: {'; '.join(problems[:4])}{suffix}",
                expected=f"the tensors of {architecture} as config.json describes it",
                fix="correct --like; where the model is a part of a module, name it with --prefix, such as --prefix "
                "model.",
            )
        self.expected = set(self.converted({name: expected[name].detach() for name in shapes}))

    def converted(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Tensors in their published form."""
        if self.model is None:
            return tensors
        try:
            from transformers.core_model_loading import revert_weight_conversion
        except ImportError:  # transformers 4 trains the published form
            return tensors
        published: dict[str, torch.Tensor] = revert_weight_conversion(self.model, tensors)
        return {name: _by_itself(tensor) for name, tensor in published.items()}

    def refuse_half_converted(self, names: Iterable[str]) -> None:
        """Refuse files in which a conversion had only some of its tensors."""
        if self.model is not None and (missing := sorted(self.expected - set(names))):
            raise InputError(
                f"export: {missing[0]} needs tensors of two files", expected="tensors of one layer in one file",
                fix="export without --like, and convert with save_pretrained",
            )  # fmt: skip


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m hyperpod_ray_training.export", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("source", metavar="RUN", help="folder of a run, or of one checkpoint")
    parser.add_argument("target", metavar="FOLDER", type=Path, help="a new folder")
    parser.add_argument("--step", type=int, help="of the checkpoint; default: the newest that is whole")
    parser.add_argument("--rank", type=int, help="whose tensors, where each rank saved its own")
    parser.add_argument("--prefix", default="", help="a part of the model: names that begin so, without it")
    parser.add_argument("--like", type=Path, metavar="FOLDER", help="its configuration and tokenizer are copied")
    parser.add_argument(
        "--lora-scaling", type=float, help="lora_alpha / r of an adapter, which is added to the weights"
    )
    options = parser.parse_args()
    written = export(options.source, options.target, step=options.step, rank=options.rank, prefix=options.prefix,
                     like=options.like, lora_scaling=options.lora_scaling)  # fmt: skip
    size = f"{written['tensors']} tensors, {written['bytes'] / 1e9:.3f} GB"
    log(f"export: {written['checkpoint']} to {options.target}: {size} in {', '.join(written['files'])}")


if __name__ == "__main__":
    main_of(main)
