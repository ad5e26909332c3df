"""Where objects live: in memory for reading, in one SQLite file so that a restart keeps them; and the watch feed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str, str]  # bucket ("apps/deployments"), namespace ("" for cluster-scoped), name

HISTORY = 20_000  # changes a watch can go back to before it gets 410 Gone


def copy(value: Any) -> Any:
    """A deep copy of JSON data; about five times faster than copy.deepcopy."""
    if isinstance(value, dict):
        return {k: copy(v) for k, v in value.items()}
    if isinstance(value, list):
        return [copy(v) for v in value]
    return value


@dataclass(frozen=True)
class Change:
    """One write: what the object was before and is after (`new` is None for a deletion, `last` its last state)."""

    version: int
    key: Key
    old: Json | None
    new: Json | None
    last: Json


class Store:
    """All objects by key. Stored objects are never changed in place: `put` takes a copy, readers must not write."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS objects (bucket TEXT, namespace TEXT, name TEXT, body TEXT, "
            "PRIMARY KEY (bucket, namespace, name))"
        )
        self._db.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT)")
        self._objects: dict[str, dict[tuple[str, str], Json]] = {}
        for bucket, namespace, name, body in self._db.execute("SELECT bucket, namespace, name, body FROM objects"):
            self._objects.setdefault(bucket, {})[(namespace, name)] = json.loads(body)
        row = self._db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        # the first writes of a real server happen before anybody watches
        self.version = int(row[0]) if row else 100
        # a watch from before the start cannot be served: its changes are not known any more
        self.oldest = self.version
        self._history: deque[Change] = deque(maxlen=HISTORY)
        self._watchers: set[asyncio.Queue[Change]] = set()
        self.changed = asyncio.Event()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def get(self, key: Key) -> Json | None:
        """The object, or None."""
        return self._objects.get(key[0], {}).get((key[1], key[2]))

    def objects(self, bucket: str, namespace: str = "") -> list[Json]:
        """Objects of a bucket, of one namespace if named, by namespace and name."""
        entries = self._objects.get(bucket, {})
        return [entries[k] for k in sorted(entries) if not namespace or k[0] == namespace]

    def refresh(self) -> None:
        """Forget what is kept of another server's objects; this store is the server's own."""

    def everything(self) -> Iterator[tuple[Key, Json]]:
        """All objects of all buckets."""
        for bucket, entries in list(self._objects.items()):
            for (namespace, name), body in list(entries.items()):
                yield (bucket, namespace, name), body

    def put(self, key: Key, body: Json) -> Json:
        """Write an object; its resourceVersion is set here."""
        body = copy(body)
        body.setdefault("metadata", {})["resourceVersion"] = str(self.version + 1)
        self._write("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", (*key, json.dumps(body)))
        entries = self._objects.setdefault(key[0], {})
        previous = entries.get((key[1], key[2]))
        entries[(key[1], key[2])] = body
        self._record(Change(self.version, key, previous, body, body))
        return body

    def remove(self, key: Key) -> Json | None:
        """Delete an object for good; returns its last state."""
        removed = self.get(key)
        if removed is None:
            return None
        self._write("DELETE FROM objects WHERE bucket = ? AND namespace = ? AND name = ?", key)
        del self._objects[key[0]][(key[1], key[2])]
        final = copy(removed)
        final["metadata"]["resourceVersion"] = str(self.version)
        self._record(Change(self.version, key, removed, None, final))
        return removed

    def _write(self, statement: str, values: tuple[str, ...]) -> None:
        """Write a change and its version into the file, both or neither, before anybody can read it."""
        self._db.execute("BEGIN")
        try:
            self._db.execute(statement, values)
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (str(self.version + 1),))
            self._db.execute("COMMIT")
        except sqlite3.Error:  # a full disk, which has rolled back by itself or not
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self.version += 1

    def _record(self, change: Change) -> None:
        if len(self._history) == HISTORY:
            self.oldest = self._history[0].version
        self._history.append(change)
        for queue in self._watchers:
            queue.put_nowait(change)
        self.changed.set()

    def note(self, key: str, value: str | None = None) -> str:
        """Read a remark kept beside the objects, or write it."""
        if value is not None:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"note/{key}", value))
            return value
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (f"note/{key}",)).fetchone()
        return str(row[0]) if row else ""

    def since(self, version: int) -> list[Change]:
        """Changes after a resourceVersion that is not older than `oldest`."""
        return [c for c in self._history if c.version > version]

    def subscribe(self) -> asyncio.Queue[Change]:
        """A queue that gets every change from now on."""
        queue: asyncio.Queue[Change] = asyncio.Queue()
        self._watchers.add(queue)
        return queue

    def unsubscribe(self, queue: asyncio.Queue[Change]) -> None:
        """Stop a queue."""
        self._watchers.discard(queue)
