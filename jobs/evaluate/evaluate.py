"""Measure a language model in a folder of Hugging Face, such as `hyperpod-ray runs export` writes: its loss on texts.

A plain script for one GPU or CPU. `--data` has one JSON object a line: {"text": …}, {"prompt": …, "completion": …} or
{"messages": […]}. Of the last two only the answers count. It prints one line `RESULT {…}`, and writes it to `--out`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from hyperpod_ray_training import InputError, main_of


def parts_of(row: dict[str, Any], tokenizer: Any, *, place: str) -> tuple[str, str]:
    """The prompt, and what the model must predict.

    Raises:
        InputError: The tokenizer's chat template does not write the prompt as it is before an answer; with `place`.
    """
    if "text" in row:
        return "", row["text"]
    if "completion" in row:
        return row["prompt"], row["completion"]
    messages = row["messages"]
    prompt = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    if not whole.startswith(prompt):
        raise InputError(
            f"{place}: the chat template writes the prompt otherwise before an answer",
            expected="the same prompt, then the answer",
            fix="write the row as prompt and completion",
        )  # fmt: skip
    return prompt, whole.removeprefix(prompt)


def rows_of(path: Path, tokenizer: Any) -> Iterator[tuple[list[int], int]]:
    """Of each line its tokens, and how many of them are given.

    Raises:
        InputError: A line is none of the three forms.
    """
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            prompt, predicted = parts_of(json.loads(line), tokenizer, place=f"{path}:{number}")
            "".join((prompt, predicted))  # TypeError where a part is no text
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(
                f"{path}:{number}: {type(error).__name__} ({error})",
                expected="an object with text, with prompt and completion, or with messages", fix="correct the line",
            ) from error  # fmt: skip
        before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        yield before + tokenizer(predicted, add_special_tokens=False)["input_ids"], len(before)


def measure(model: Any, rows: Iterator[tuple[list[int], int]], *, longest: int) -> dict[str, float]:
    """The mean loss of a predicted token, its perplexity, and the share of tokens that the first guess names."""
    losses, right, tokens, cut = 0.0, 0, 0, 0
    for whole, prompt_tokens in rows:
        symbols, cut = torch.tensor([whole[:longest]], device=model.device), cut + (len(whole) > longest)
        begin = max(prompt_tokens, 1)  # nothing predicts the first token
        if symbols.shape[1] <= begin:
            continue
        with torch.no_grad():
            logits = model(symbols).logits[0, begin - 1 : -1].float()
        targets = symbols[0, begin:]
        losses += float(functional.cross_entropy(logits, targets, reduction="sum"))
        right += int((logits.argmax(1) == targets).sum())
        tokens += len(targets)
    if not tokens:
        raise InputError("--data: no token to predict", expected="texts of two tokens or more", fix="correct the file")
    loss = losses / tokens
    return {
        "loss": loss, "perplexity": math.exp(loss), "first_guess_right": right / tokens, "tokens": tokens, "cut": cut,
    }  # fmt: skip


def main() -> None:
    """Read the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="the folder")
    parser.add_argument("--data", required=True, type=Path, help="one JSON object a line")
    parser.add_argument("--longest", type=int, default=4096, metavar="TOKENS", help="longer texts are cut, and counted")
    parser.add_argument("--out", type=Path, default=None, help="a file for the result, as JSON")
    arguments = parser.parse_args()
    for name, path in (("--model", Path(arguments.model)), ("--data", arguments.data)):
        if not path.exists():
            raise InputError(f"{name}: {path} does not exist", expected="a path of this node", fix="correct it")
    on_gpu = torch.cuda.is_available()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.bfloat16 if on_gpu else torch.float32)
    model.to("cuda" if on_gpu else "cpu").eval()
    result = measure(model, rows_of(arguments.data, tokenizer), longest=arguments.longest)
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main_of(main)
