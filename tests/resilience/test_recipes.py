"""The recipes of jobs/ train a tiny model for real: killed and started again, each loss is that of the whole run.

The losses of the whole run are those that the recipe's README expects, in `jobs/RECIPE/loss.csv`. To record them again:
`RECORD_LOSSES=.cache/losses .venv-rehearsal/bin/python -m pytest tests/resilience/test_recipes.py`, copy
`.cache/losses/*` to `jobs/`, and run `.venv/bin/python -m docs.generate jobs/`.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parents[2]
JOBS = PROJECT / "jobs"
LIMIT_S = 600


def lines(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Llama of two layers with a tokenizer of bytes, as a folder of Hugging Face."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary |= {"<pad>": len(vocabulary), "<end>": len(vocabulary) + 1}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")
    fast.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=64, max_position_embeddings=256, pad_token_id=vocabulary["<pad>"],
        eos_token_id=vocabulary["<end>"], bos_token_id=None,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


def start(tmp_path: Path, recipe: str, name: str, words: list[str]) -> subprocess.Popen[str]:
    environ = {
        **os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub"), "TQDM_DISABLE": "1",
    }  # fmt: skip
    command = [sys.executable, str(JOBS / recipe / "train.py"), "--storage", str(tmp_path / "runs"), "--name", name]
    return subprocess.Popen(
        [*command, "--workers", "0", "--save-every-steps", "3", *words], env=environ, cwd=JOBS / recipe,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def steps(tmp_path: Path, name: str) -> list[dict[str, float]]:
    journal = tmp_path / "runs" / name / "events.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    return [event for event in events if event["kind"] == "step"]


def losses(tmp_path: Path, name: str) -> dict[int, set[float]]:
    by_step: dict[int, set[float]] = {}
    for event in steps(tmp_path, name):
        by_step.setdefault(int(event["step"]), set()).add(event["loss"])
    return by_step


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, output[-3000:]
    return output


def equal_after_a_kill(tmp_path: Path, recipe: str, words: list[str], *, kill_at: int) -> dict[int, set[float]]:
    finish(start(tmp_path, recipe, "whole", words))
    process = start(tmp_path, recipe, "killed", words)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        if any(event["step"] >= kill_at for event in steps(tmp_path, "killed")):
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the run was over before it was killed"
    finish(start(tmp_path, recipe, "killed", words))
    whole, killed = losses(tmp_path, "whole"), losses(tmp_path, "killed")
    assert len(whole) > kill_at + 1, "nothing was left to do after the kill"
    assert killed == whole
    expected(recipe, [(step, max(values)) for step, values in sorted(whole.items())])
    return whole


def expected(recipe: str, curve: list[tuple[int, float]]) -> None:
    """The losses are those of the record, up to what another processor's sums change."""
    if folder := os.environ.get("RECORD_LOSSES"):
        path = PROJECT / folder / recipe / "loss.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("step,loss\n" + "".join(f"{step},{round(loss, 4) + 0.0:.4f}\n" for step, loss in curve))
        return
    with (JOBS / recipe / "loss.csv").open(newline="") as file:
        recorded = [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]
    assert [step for step, _ in curve] == [step for step, _ in recorded]
    slack = 0.1 if recipe == "grpo" else 0.02  # another processor may draw another completion
    assert [loss for _, loss in curve] == pytest.approx([loss for _, loss in recorded], rel=0.02, abs=slack)


def test_the_smallest_job(tmp_path: Path) -> None:
    whole = equal_after_a_kill(tmp_path, "classify", ["--steps", "100", "--save-every-steps", "20"], kill_at=30)
    assert max(whole[max(whole)]) < min(whole[1]) - 1, "it learns"
    accuracies = [event["accuracy"] for event in steps(tmp_path, "whole")]
    assert accuracies[-1] > 0.85, "a tenth is chance"


def test_a_small_language_model_on_text_that_ships_with_python(tmp_path: Path) -> None:
    words = ["--steps", "80", "--validate-every", "40", "--learning-rate", "0.003", "--save-every-steps", "20"]
    whole = equal_after_a_kill(tmp_path, "finetune", words, kill_at=30)
    assert max(whole[max(whole)]) < min(whole[1]) - 2, "it learns"
    unseen = [event["validation_loss"] for event in steps(tmp_path, "whole") if "validation_loss" in event]
    assert len(unseen) == 2
    assert unseen[1] < unseen[0]


def text_of(tmp_path: Path) -> Path:
    from pydoc_data.topics import topics

    path = tmp_path / "text.txt"
    path.write_text("\n".join(topics[key] for key in sorted(topics))[:20_000])
    return path


def test_pretraining_streams_its_tokens(tmp_path: Path) -> None:
    prepare = [
        sys.executable,
        str(JOBS / "pretrain" / "prepare.py"),
        "--text",
        str(text_of(tmp_path)),
        "--sequence",
        "64",
    ]
    done = subprocess.run(
        [*prepare, "--out", str(tmp_path / "tokens")], env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "rows of 65 tokens in 1 files" in done.stdout
    words = ["--data", str(tmp_path / "tokens"), "--size", "tiny", "--vocabulary", "257", "--sequence", "64"]
    words += ["--global-batch", "16", "--warm-up", "3", "--learning-rate", "0.01"]
    whole = equal_after_a_kill(tmp_path, "pretrain", words, kill_at=7)
    assert max(whole[max(whole)]) < min(whole[1]) - 1, "it learns"


@pytest.mark.parametrize("recipe", ["sft", "dpo"])
def test_tuning_by_trl(tmp_path: Path, tiny: str, recipe: str) -> None:
    sums = [(f"What is {n} + {n}?", f"It is {2 * n}.", f"No idea about {n}.") for n in range(48)]
    rows: list[dict[str, object]] = [
        {"messages": [{"role": "user", "content": ask}, {"role": "assistant", "content": good}]}
        if recipe == "sft"
        else {"prompt": ask, "chosen": good, "rejected": bad}
        for ask, good, bad in sums
    ]
    words = ["--model", tiny, "--data", lines(tmp_path / "rows.jsonl", rows), "--batch", "4", "--accumulate", "2"]
    words += ["--epochs", "2", "--sequence", "96", "--rank", "4", "--learning-rate", "0.01", "--warm-up", "2"]
    whole = equal_after_a_kill(tmp_path, recipe, [*words, "--scratch", str(tmp_path / "scratch")], kill_at=7)
    assert min(whole[max(whole)]) < min(whole[1]), "it learns"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise in four colours, a folder per class, in the formats of somebody's camera and somebody's phone."""
    import numpy as np
    from PIL import Image

    folder, chance = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    colours = {"a blue": (0, 0, 90), "green": (0, 90, 0), "Red": (90, 0, 0), "white": (90, 90, 90)}
    for number in range(320):
        name, colour = list(colours.items())[number % 4]
        place = folder / ("val" if number >= 240 else "train") / name
        place.mkdir(parents=True, exist_ok=True)
        pixels = chance.integers(0, 120, size=(24, 20, 3)) + np.array(colour)
        Image.fromarray(pixels.astype("uint8")).save(place / (f"{number}.png" if number % 3 else f"{number}.JPG"))
    (folder / "train" / "notes.txt").write_text("no class")
    (folder / "train" / "white" / "Thumbs.db").write_text("no image")
    return folder


def test_images_of_a_folder_from_scratch_and_from_the_exported_model(tmp_path: Path, photos: Path) -> None:
    from transformers import ViTForImageClassification

    words = ["--data", str(photos), "--size", "tiny", "--pixels", "16", "--batch", "30", "--loaders", "2"]
    words += ["--learning-rate", "0.003", "--warm-up", "4", "--config", str(tmp_path / "base")]
    whole = equal_after_a_kill(tmp_path, "vision", [*words, "--epochs", "5"], kill_at=13)
    assert max(whole[max(whole)]) < min(whole[1]) - 0.5, "it learns"
    accuracies = [event["accuracy"] for event in steps(tmp_path, "whole") if "accuracy" in event]
    assert len(accuracies) == 5
    assert accuracies[-1] > 0.9, "a quarter is chance"
    model = tmp_path / "model"
    exported(tmp_path, "whole", model, "--like", str(tmp_path / "base"))
    labels = ViTForImageClassification.from_pretrained(model).config.id2label
    assert list(labels.values()) == ["Red", "a blue", "green", "white"]
    finish(start(tmp_path, "vision", "again", [*words, "--epochs", "1", "--model", str(model)]))
    assert max(losses(tmp_path, "again")[1]) < min(whole[1]), "it starts from what was learned"


def test_folders_of_no_images_are_refused(tmp_path: Path) -> None:
    process = start(tmp_path, "vision", "none", ["--data", str(tmp_path)])
    output, _ = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, "has 0 folders. Expected one per class, 2 or more. Fix:" in output) == (2, True), output


def exported(tmp_path: Path, name: str, model: Path, *words: str) -> None:
    words = (str(tmp_path / "runs" / name), str(model), *words)
    subprocess.run(
        [sys.executable, "-m", "hyperpod_ray_training.export", *words],
        env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip


def evaluate(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(JOBS / "evaluate" / "evaluate.py"), *words], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip


def test_a_tuned_model_is_exported_and_measured_against_its_base(tmp_path: Path, tiny: str) -> None:
    answers: list[dict[str, object]] = [
        {"messages": [{"role": "user", "content": f"What is {n}?"}, {"role": "assistant", "content": f"It is {n}."}]}
        for n in range(32)
    ]
    words = ["--model", tiny, "--data", lines(tmp_path / "rows.jsonl", answers[:24]), "--batch", "4", "--epochs", "4"]
    words += ["--sequence", "96", "--rank", "8", "--learning-rate", "0.02", "--warm-up", "2", "--save-every-steps", "4"]
    finish(start(tmp_path, "sft", "tuned", [*words, "--scratch", str(tmp_path / "scratch")]))
    exported(tmp_path, "tuned", tmp_path / "model", "--like", tiny, "--lora-scaling", "2")
    held_out, out = lines(tmp_path / "held-out.jsonl", answers[24:]), tmp_path / "results" / "tuned.json"
    done = evaluate("--model", str(tmp_path / "model"), "--data", held_out, "--out", str(out))
    assert done.returncode == 0, done.stderr
    tuned = json.loads(out.read_text())
    base = json.loads(evaluate("--model", tiny, "--data", held_out).stdout.removeprefix("RESULT "))
    assert json.loads(done.stdout.removeprefix("RESULT ")) == tuned
    assert tuned["loss"] < base["loss"] - 0.2
    exported(tmp_path, "tuned", tmp_path / "half", "--like", tiny, "--lora-scaling", "2", "--step", "4")
    half = json.loads(evaluate("--model", str(tmp_path / "half"), "--data", held_out).stdout.removeprefix("RESULT "))
    expected("evaluate", [(0, base["loss"]), (4, half["loss"]), (8, tuned["loss"])])
    assert tuned["tokens"] == base["tokens"] == sum(len(f"It is {n}.\n") for n in range(24, 32)), "answers alone count"
    cut = json.loads(evaluate("--model", tiny, "--data", held_out, "--longest", "30").stdout.removeprefix("RESULT "))
    assert (cut["cut"], cut["tokens"] < base["tokens"]) == (8, True)


@pytest.mark.parametrize(
    "line", ['{"prompt": "a"}', "no JSON", '{"messages": []}', "[1]", '{"prompt": [1], "completion": "a"}']
)
def test_a_line_that_cannot_be_measured_is_named(tmp_path: Path, tiny: str, line: str) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text(f'{{"text": "a text"}}\n{line}\n')
    done = evaluate("--model", tiny, "--data", str(data))
    assert (done.returncode, f"{data}:2: " in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_a_chat_template_that_changes_the_prompt_is_refused_by_its_line(tmp_path: Path, tiny: str) -> None:
    """As templates with a part for thinking: the prompt ends otherwise before an answer, and it would count as one."""
    from transformers import AutoTokenizer

    model = tmp_path / "model"
    shutil.copytree(tiny, model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: <think>{% endif %}"
    )
    tokenizer.save_pretrained(model)
    data = tmp_path / "rows.jsonl"
    messages = [{"role": "user", "content": "What is 1?"}, {"role": "assistant", "content": "It is 1."}]
    data.write_text('{"text": "a text"}\n' + json.dumps({"messages": messages}) + "\n")
    done = evaluate("--model", str(model), "--data", str(data))
    assert done.returncode == 2, done.stderr
    assert f"{data}:2: the chat template writes the prompt otherwise before an answer. Expected the same" in done.stderr
    assert done.stderr.count("Expected") == done.stderr.count("Fix:") == 1
    data.write_text('{"prompt": "What is 1?", "completion": " It is 1."}\n')
    assert evaluate("--model", str(model), "--data", str(data)).returncode == 0, "as its fix says"


def test_reinforcement_by_a_reward_of_ones_own(tmp_path: Path, tiny: str) -> None:
    """Completions are drawn by the model as it is: after the kill the same ones are drawn again."""
    rows: list[dict[str, object]] = [{"prompt": f"What is {n} + {n}? ", "answer": str(2 * n)} for n in range(24)]
    words = ["--model", tiny, "--data", lines(tmp_path / "rows.jsonl", rows), "--batch", "4", "--accumulate", "2"]
    words += ["--generations", "4", "--completion", "12", "--rank", "4", "--learning-rate", "0.01"]
    whole = equal_after_a_kill(tmp_path, "grpo", [*words, "--scratch", str(tmp_path / "scratch")], kill_at=5)
    assert len({loss for values in whole.values() for loss in values}) > 3, "rewards differ"
