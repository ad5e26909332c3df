"""A write that the disk has no room for has no effect, in memory neither."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.kubernetes.store import Store

KEY = ("/configmaps", "default", "large")


def limit(store: Store, *, more: int) -> None:
    """Let the file grow by so many pages, as a full disk does."""
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count={pages + more}")


def test_a_full_disk_refuses_an_object_and_keeps_none(tmp_path: Path) -> None:
    store = Store(tmp_path / "objects.sqlite")
    queue = store.subscribe()
    version = store.version
    limit(store, more=0)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.put(KEY, {"data": {"a": "x" * 100_000}})
    assert (store.get(KEY), store.version, queue.empty()) == (None, version, True)
    limit(store, more=100)
    assert store.put(KEY, {"data": {"a": "x" * 100_000}})["metadata"]["resourceVersion"] == str(version + 1)
    store.close()
    again = Store(tmp_path / "objects.sqlite")
    assert (again.version, again.get(KEY) is not None) == (version + 1, True)


def test_a_deletion_that_cannot_be_written_deletes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "objects.sqlite")
    stored, version = store.put(KEY, {"data": {}}), store.version
    store._db.execute("PRAGMA query_only=1")
    with pytest.raises(sqlite3.OperationalError):
        store.remove(KEY)
    assert (store.get(KEY), store.version) == (stored, version)
    store._db.execute("PRAGMA query_only=0")
    assert store.remove(KEY) is not None
    assert store.get(KEY) is None
