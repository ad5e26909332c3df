"""A run's model out of its checkpoint: every bit, in files that other libraries read, or a refusal with the way out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT, job_environment
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from hyperpod_ray_training import Resumable, Run
from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.export import _Published, export
from hyperpod_ray_training.lora import Adapter


def tiny_gpt(seed: int = 0) -> Any:
    """A GPT with tied embeddings, as most have."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    return GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=12, n_embd=16, n_layer=2, n_head=2))


def trained(folder: Path, model: nn.Module, *, name: str = "run", steps: int = 4, wrap: Any = None) -> str:
    """A run of this model, whose weights move in each step."""

    def loop(config: dict[str, Any]) -> None:
        whole = wrap(model) if wrap else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training = Resumable(config["run"], model=whole, optimizer=optimizer)
        for step in training.steps(steps):
            loss = sum(parameter.float().square().sum() for parameter in model.parameters())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.finished(step, loss=loss.item())

    run = Run(storage=str(folder), name=name, save_every_steps=2, async_save=False)
    run.fit(loop, workers=0)
    return str(folder / name)


@pytest.mark.slow
def test_a_hugging_face_model_comes_out_and_a_run_starts_from_it(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    model, base, out = tiny_gpt(), f"{tmp_path}/fsx/models/base", f"{tmp_path}/fsx/models/first"
    model.save_pretrained(base)
    Path(base, "tokenizer.json").write_text("{}")
    run = trained(tmp_path / "fsx" / "runs", model, name="first")
    assert run == f"{tmp_path}/fsx/runs/first"
    command = [sys.executable, "-m", "hyperpod_ray_training.export", run, out, "--like", base]
    done = subprocess.run(command, cwd=ROOT, env=job_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "step-00000004" in done.stderr and "model.safetensors" in done.stderr
    again, info = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert not torch.equal(again.transformer.wte.weight, tiny_gpt().transformer.wte.weight), "it was trained"
    assert Path(out, "tokenizer.json").exists()
    assert trained(tmp_path, again, name="second", steps=2), "a run starts from it"


def test_a_mixture_of_experts_comes_out_as_it_is_published(tmp_path: Path) -> None:
    """transformers trains its experts as one tensor; other software reads each by its own name, as the hub has them."""
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(0)
    sizes = {
        "vocab_size": 32,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    model = MixtralForCausalLM(MixtralConfig(**sizes, num_hidden_layers=2, num_local_experts=3))
    model.save_pretrained(tmp_path / "base")
    run = trained(tmp_path / "runs", model, steps=2)
    for name, largest_file in (("one", 5_000_000_000), ("several", 8_000)):
        written = export(run, tmp_path / name, like=tmp_path / "base", largest_file=largest_file)
        tensors: dict[str, torch.Tensor] = {}
        for file in written["files"]:
            tensors |= load_file(tmp_path / name / file)
        model.save_pretrained(tmp_path / f"{name}-published")
        published = load_file(tmp_path / f"{name}-published" / "model.safetensors")
        assert tensors.keys() == published.keys() == load_file(tmp_path / "base" / "model.safetensors").keys()
        assert all(torch.equal(tensors[key], tensor) for key, tensor in published.items())
        again = MixtralForCausalLM.from_pretrained(tmp_path / name)
        assert all(torch.equal(again.state_dict()[key], tensor) for key, tensor in model.state_dict().items())
    index = json.loads((tmp_path / "several" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == tensors.keys()
    assert len(written["files"]) > 2
    assert written["tensors"] == len(tensors)
    readable = {path.stat().st_mode & 0o777 for path in (tmp_path / "several").iterdir()}
    assert readable == {Path(tmp_path / "base" / "config.json").stat().st_mode & 0o777}, "whoever reads one, reads all"


def test_a_conversion_that_had_half_of_its_tensors_is_refused() -> None:
    published = _Published(nn.Linear(2, 2), Adapter({}, scaling=0.0, model=None))
    published.expected = {"qkv.weight", "norm.weight"}
    with pytest.raises(InputError, match=r"qkv\.weight needs tensors of two files"):
        published.refuse_half_converted(["norm.weight"])
    published.refuse_half_converted(["norm.weight", "qkv.weight"])


def test_a_large_model_goes_into_several_files_with_an_index(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(5))).to(torch.bfloat16)
    model.register_buffer("count", torch.tensor(3))
    run = trained(tmp_path, model)
    written = export(run, tmp_path / "out", largest_file=2 * (8 * 8 + 8) * 2)
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert sorted(set(index["weight_map"].values())) == written["files"] and len(written["files"]) > 1
    assert index["metadata"]["total_size"] == 5 * (8 * 8 + 8) * 2 + 8 == written["bytes"]
    together: dict[str, torch.Tensor] = {}
    for file in written["files"]:
        part = load_file(tmp_path / "out" / file)
        assert {index["weight_map"][name] for name in part} == {file}
        together |= part
    assert together.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert together[name].dtype == tensor.dtype
        assert torch.equal(together[name], tensor), name


def test_an_older_step_or_one_folder_can_be_named(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    run = trained(tmp_path, model)
    assert "step-00000002" in export(run, tmp_path / "second", step=2)["checkpoint"]
    (newest,) = Path(run).glob("step-00000004-*")
    assert export(str(newest), tmp_path / "fourth")["checkpoint"] == str(newest)
    with safe_open(tmp_path / "fourth" / "model.safetensors", "pt") as file:
        assert torch.equal(file.get_tensor("weight"), model.weight)
    assert not torch.equal(load_file(tmp_path / "second" / "model.safetensors")["weight"], model.weight)


def test_a_part_of_the_model_is_named_by_its_prefix(tmp_path: Path) -> None:
    model = nn.ModuleDict({"student": nn.Linear(4, 4), "teacher": nn.Linear(4, 4)})
    run = trained(tmp_path, model)
    export(run, tmp_path / "out", prefix="student.")
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == {"weight", "bias"}
    with pytest.raises(InputError, match=r"begins with 'pupil\.'.*student, teacher"):
        export(run, tmp_path / "none", prefix="pupil.")


def test_damage_is_passed_over_for_an_older_one_and_never_exported(tmp_path: Path, capfd: Any) -> None:
    run = trained(tmp_path, nn.Linear(4, 4))
    for step, other in ((4, "step-00000002"), (2, "")):
        (checkpoint,) = Path(run).glob(f"step-{step:08d}-*")
        (shard,) = checkpoint.glob("*.distcp")
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(bytes(content))
        if other:
            assert other in export(run, tmp_path / "out")["checkpoint"]
            assert "passed over" in capfd.readouterr().err
        else:
            with pytest.raises(InputError, match="CRC-32"):
                export(run, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_what_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path, nn.Linear(4, 4))
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="exists"):
        export(run, tmp_path / "there")
    with pytest.raises(InputError, match="no usable checkpoint of step 3"):
        export(run, tmp_path / "out", step=3)
    with pytest.raises(InputError, match="no usable checkpoint"):
        export(str(tmp_path / "nowhere"), tmp_path / "out")
    with pytest.raises(InputError, match=r"has no config\.json"):
        export(run, tmp_path / "out", like=tmp_path / "there")
    tiny_gpt().save_pretrained(tmp_path / "base")
    with pytest.raises(InputError, match=r"no GPT2LMHeadModel: .* is missing; .*Fix: correct --like") as refused:
        export(run, tmp_path / "out", like=tmp_path / "base")
    assert "--prefix" in str(refused.value)
    assert sorted(path.name for path in tmp_path.glob("*out*")) == [], "nothing half done stays"


def test_another_vocabulary_than_the_configuration_is_refused(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    tiny_gpt().save_pretrained(tmp_path / "base")
    larger = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=12, n_embd=16, n_layer=2, n_head=2))
    run = trained(tmp_path, larger)
    with pytest.raises(InputError, match=r"is \[40, 16\], not \[32, 16\]"):
        export(run, tmp_path / "out", like=tmp_path / "base")


def test_each_ranks_own_tensors_are_no_one_model(tmp_path: Path, launcher: subprocess.Popen[str]) -> None:
    """Two stages of a pipeline, of two real ranks."""
    request = {
        "script": str(ROOT / "tests" / "resilience" / "run_shape.py"), "ranks": 2,
        "arguments": ["pipeline_stage", str(tmp_path), "run", "-1"],
        "environment": job_environment(GLOO_SOCKET_IFNAME="lo"), "output": str(tmp_path / "said"),
    }  # fmt: skip
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    launcher.stdin.write(json.dumps(request) + "\n")
    launcher.stdin.flush()
    assert json.loads(launcher.stdout.readline()) == [0, 0]
    with pytest.raises(InputError, match=r"ranks 0, 1 saved .*Fix: export each with --rank N, such as --rank 0"):
        export(str(tmp_path / "run"), tmp_path / "out")
    shapes = []
    for rank in range(2):
        export(str(tmp_path / "run"), tmp_path / f"stage-{rank}", rank=rank)
        shapes.append(load_file(tmp_path / f"stage-{rank}" / "model.safetensors")["0.weight"].shape)
    assert shapes == [(16, 8), (8, 16)]


def test_shards_of_two_ranks_come_out_as_one_model(tmp_path: Path, launcher: subprocess.Popen[str]) -> None:
    """A frozen base and its adapters under FSDP2: torch's own reader has the same tensors, whole."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    request = {
        "script": str(ROOT / "tests" / "resilience" / "run_shape.py"), "ranks": 2,
        "arguments": ["lora_fsdp2", str(tmp_path), "run", "-1"],
        "environment": job_environment(GLOO_SOCKET_IFNAME="lo"), "output": str(tmp_path / "said"),
    }  # fmt: skip
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    launcher.stdin.write(json.dumps(request) + "\n")
    launcher.stdin.flush()
    assert json.loads(launcher.stdout.readline()) == [0, 0]
    checkpoint = export(str(tmp_path / "run"), tmp_path / "out")["checkpoint"]
    assert {path.name for path in Path(checkpoint).glob("*.distcp")} == {"__0_0.distcp", "__1_0.distcp"}
    dcp_to_torch_save(checkpoint, tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt", weights_only=False)["model"]
    written = load_file(tmp_path / "out" / "model.safetensors")
    assert written.keys() == whole.keys()
    for name, tensor in written.items():
        assert torch.equal(tensor, whole[name]), name
