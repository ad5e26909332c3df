"""Tokenize text into Parquet files that `train.py` streams: rows of `--sequence` + 1 tokens, without padding.

    python prepare.py --text 's3://my-data/raw/' --tokenizer Qwen/Qwen3-0.6B --out s3://my-data/tokens/ --sequence 4096

`--text` is a file or a folder of `.txt` and `.jsonl` files (field `text`). Documents are joined by the tokenizer's end
token and cut into rows. Without `--tokenizer` each byte is a token and 256 ends a document: enough to try the recipe.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from hyperpod_ray_training import InputError
from hyperpod_ray_training.rows import store_of

ROWS_PER_GROUP, ROWS_PER_FILE = 1024, 65536
END_OF_BYTES = 256


def documents(source: str) -> Iterator[str]:
    """The texts below a place, in the order of the files' names."""
    store, base = store_of(source)
    root = store.get_file_info(base)
    listed = [root] if root.is_file else store.get_file_info(fs.FileSelector(base, recursive=True))
    files = sorted(info.path for info in listed if info.is_file and info.path.endswith((".txt", ".jsonl")))
    if not files:
        raise InputError(f"--text: {source} has no file", expected="*.txt or *.jsonl", fix="correct the place")
    for path in files:
        with store.open_input_stream(path) as stream:
            text = stream.read().decode()
        if path.endswith(".txt"):
            yield text
        else:
            yield from (json.loads(line)["text"] for line in text.splitlines() if line.strip())


def encoder(name: str | None) -> tuple[Callable[[str], list[int]], int]:
    """From a text to its tokens, and the token that ends a document."""
    if name is None:
        return lambda text: list(text.encode()), END_OF_BYTES
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    return lambda text: tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id


def rows(texts: Iterator[str], encode: Callable[[str], list[int]], end: int, length: int) -> Iterator[list[int]]:
    """Rows of `length` tokens; what is left over at the end is dropped."""
    rest: list[int] = []
    for text in texts:
        rest += [*encode(text), end]
        whole = len(rest) // length * length
        yield from (rest[start : start + length] for start in range(0, whole, length))
        rest = rest[whole:]


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="a file or folder, mounted or s3://BUCKET/PREFIX")
    parser.add_argument("--out", required=True, help="folder for the Parquet files, mounted or s3://BUCKET/PREFIX")
    parser.add_argument("--tokenizer", default=None, help="of Hugging Face, by name or folder (default: bytes)")
    parser.add_argument("--sequence", type=int, default=4096, help="tokens of a training sequence (4096)")
    arguments = parser.parse_args()
    encode, end = encoder(arguments.tokenizer)
    schema = pa.schema([("tokens", pa.list_(pa.int32(), arguments.sequence + 1))])
    store, folder = store_of(arguments.out)
    store.create_dir(folder, recursive=True)
    pending: list[list[int]] = []
    files = total = 0

    def write() -> None:
        nonlocal files, total
        table = pa.table({"tokens": pending}, schema=schema)
        pq.write_table(table, f"{folder}/{files:05d}.parquet", filesystem=store, row_group_size=ROWS_PER_GROUP)
        files, total = files + 1, total + len(pending)
        pending.clear()

    for row in rows(documents(arguments.text), encode, end, arguments.sequence + 1):
        pending.append(row)
        if len(pending) == ROWS_PER_FILE:
            write()
    if pending:
        write()
    if not total:
        raise InputError(
            f"--text: {arguments.text} has less than {arguments.sequence + 1} tokens",
            expected="one row or more", fix="give more text, or a smaller --sequence",
        )  # fmt: skip
    print(f"{total} rows of {arguments.sequence + 1} tokens in {files} files")


if __name__ == "__main__":
    main()
