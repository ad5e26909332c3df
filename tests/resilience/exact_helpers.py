"""What tests of `exact`, `rows` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet files with row groups of several sizes; what is hidden is no data."""
    place = tmp_path_factory.mktemp("rows")
    begin = 0
    for number, (count, group) in enumerate([(20, 7), (1, 1), (32, 10)]):
        ids = list(range(begin, begin + count))
        table = pa.table({"id": ids, "pair": [[id_, -id_] for id_ in ids], "word": [str(id_) for id_ in ids]})
        (place / f"part-{number}").mkdir()
        pq.write_table(table, place / f"part-{number}" / "data.parquet", row_group_size=group)
        begin += count
    (place / "_temporary").mkdir()
    pq.write_table(table, place / "_temporary" / "data.parquet")
    (place / "readme.txt").write_text("x")
    return place


def ids_of(batch: Any) -> list[int]:
    return [int(one) for one in (batch["id"] if isinstance(batch, dict) else batch)]
