"""`submit` without a Ray: a reply that is lost, and what is packed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach import jobs_api


def posted(monkeypatch: pytest.MonkeyPatch, *answers: Exception | None) -> str:
    """What `post` makes of answers that come one after the other."""
    left = iter(answers)

    def answer(*_: Any, **__: Any) -> None:
        if (error := next(left)) is not None:
            raise error

    monkeypatch.setattr(
        "hyperpod_ray.ops.reach.jobs_api.time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: None)
    )
    jobs: Any = SimpleNamespace(json=answer)
    return jobs_api.post(jobs, {"submission_id": "mine"})


EXISTS = OpsError("the Jobs API answers 400: mine already exists", expected="x", fix="x")
LATER = OpsError("the Jobs API answers 500: try again later", expected="x", fix="x")


def test_a_job_is_submitted_once_though_a_reply_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert posted(monkeypatch, None) == "mine"
    assert posted(monkeypatch, ConnectionError("reset"), EXISTS) == "mine"
    assert posted(monkeypatch, LATER, None) == "mine"


def test_a_job_of_somebody_elses_is_not_taken_for_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OpsError, match="already exists"):
        posted(monkeypatch, EXISTS)
    with pytest.raises(OpsError, match="already exists"):
        posted(monkeypatch, LATER, EXISTS)
