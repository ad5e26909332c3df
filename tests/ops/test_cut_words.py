"""What a service says is cut before it is shown: no message of somebody else's fills a screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hyperpod_ray.ops import errors
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.observe import hangs, queues, slurm
from hyperpod_ray.ops.observe.snapshot import Hang

LONG = "word " * 10_000


def hang(message: str) -> Hang:
    return hangs.hang({"logStreamName": "X/workers/i-1", "message": message, "timestamp": 0})


def unreadable(_: str) -> dict[str, Any]:
    raise RuntimeError(LONG)


def folder(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(reader, "read", unreadable)
    return str(reader._read_or_blank("/x")["progress"]["last_error"])


CUT: dict[str, tuple[Callable[[], str], int]] = {
    "Kueue's message": (lambda: queues._needs(LONG), 300),
    "a hang as text": (lambda: hang(LONG).text, 300),
    "a hang as JSON": (lambda: hang(json.dumps({"message": LONG})).text, 300),
    "a body of the API server": (
        lambda: errors.body_message(errors.ApiError(status=500, body=json.dumps({"message": LONG}))), 400,
    ),
    "the last line of Session Manager": (lambda: slurm.said_last(LONG, ""), 200),
    "a reason of the API server": (lambda: errors.body_message(errors.ApiError(status=500, reason=LONG)), 200),
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
def test_it_is_cut(name: str) -> None:
    words, most = CUT[name]
    assert (len(words()), words()[:9]) == (most, LONG[:9])


def test_a_folder_that_cannot_be_read_says_so_in_2000_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(folder(monkeypatch)) == 2000
