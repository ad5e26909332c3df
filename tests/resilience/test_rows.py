from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from hyperpod_ray_training import InputError, Rows, rows
from tests.resilience.exact_helpers import ids_of

SAMPLES, GLOBAL, EPOCHS = 53, 6, 2


torch.set_num_threads(1)


def test_columns_are_tensors_or_lists(folder: Path) -> None:
    batch = next(iter(Rows(str(folder), global_batch=4, shuffle=False)))
    assert batch["id"].dtype == torch.int64
    assert batch["pair"].tolist() == [[one, -one] for one in batch["id"].tolist()]
    assert batch["word"] == [str(one) for one in batch["id"].tolist()]


def test_a_row_group_is_read_once_by_the_lanes_that_need_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for thread in threading.enumerate():  # of iterators that other tests have left
        if thread.name == "rows":
            thread.join(60)
    read: list[tuple[int, int]] = []
    group = pq.ParquetFile.read_row_group

    def noted(self: Any, number: int, **given: Any) -> Any:
        read.append((number, self.metadata.num_rows))
        return group(self, number, **given)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    data = Rows(str(folder), global_batch=2, lanes=1)
    assert sum(len(ids_of(batch)) for batch in data) == SAMPLES
    assert len(read) == 3 + 1 + 4, read
    read.clear()
    data.start(epoch=0, batch=len(data) - 1)
    assert len(list(data)) == 1
    assert len(read) <= 2, "what is done is not read again"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"global_batch": 0}, "lanes and a global batch of 0"),
        ({"lanes": 4}, "4 lanes and a global batch of 6"),
        ({"global_batch": 1}, "1 lanes for 2 workers"),
        ({"source": "nowhere"}, "has no file"),
        ({"global_batch": 640, "lanes": 64}, "has 53 rows"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr(rows, "ranks_now", lambda: (0, 2))
    given: dict[str, Any] = {"source": str(folder), "global_batch": GLOBAL} | change
    if change.get("source"):
        given["source"] = f"{folder}/nowhere"
    with pytest.raises(InputError, match=words):
        Rows(given.pop("source"), **given)


def test_an_error_in_the_reading_thread_is_the_loop_s(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("no route to S3")

    data = Rows(str(folder), global_batch=GLOBAL)
    monkeypatch.setattr(rows.Reader, "_unit", broken)
    with pytest.raises(OSError, match="no route"):
        list(data)


class Buckets:
    """Arrow's file systems, with one bucket that is in `eu-west-1`."""

    def __init__(self, asked: list[str], url: str) -> None:
        self.asked, self.url = asked, url
        asked.append(url)

    def get_file_info(self, _path: str) -> None:
        if "region=us-west-2" in self.url and "far" in self.url:
            raise OSError("301 PermanentRedirect")


@pytest.mark.parametrize(
    ("region", "url", "asked"),
    [
        ("us-west-2", "s3://near/a/", ["s3://near/a/?region=us-west-2"]),
        ("us-west-2", "s3://far/a", ["s3://far/a?region=us-west-2", "s3://far/a"]),
        ("us-west-2", "s3://near/a?region=eu-west-1", ["s3://near/a?region=eu-west-1"]),
        ("us-west-2", "gs://near/a", ["gs://near/a"]),
        ("", "s3://near/a", ["s3://near/a"]),
    ],
)
def test_a_bucket_is_asked_in_the_pods_region_first(
    monkeypatch: pytest.MonkeyPatch, region: str, url: str, asked: list[str]
) -> None:
    """What names no Region is looked up in us-east-1, which a closed network does not reach."""
    seen: list[str] = []
    monkeypatch.setenv("AWS_REGION", region)
    made = type("Made", (), {"from_uri": staticmethod(lambda url: (Buckets(seen, url), "bucket/a/"))})
    monkeypatch.setattr("hyperpod_ray_training.rows.fs.FileSystem", made)
    assert rows.store_of(url)[1] == "bucket/a"
    assert seen == asked
