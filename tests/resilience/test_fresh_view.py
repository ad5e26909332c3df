from __future__ import annotations

import threading

import pytest

from hyperpod_ray_training import fresh_view
from hyperpod_ray_training.fresh_view import FAR_EVERY_S, FAR_S, NEAR_EVERY_S, NEAR_S, FreshView


def test_it_looks_often_at_first_then_seldom_then_no_more_and_a_failure_begins_anew() -> None:
    now = 100.0
    view = FreshView(lambda: None, clock=lambda: now)
    view._since = now
    assert view.wait_s() == NEAR_EVERY_S
    now += NEAR_S
    assert view.wait_s() == FAR_EVERY_S
    now += FAR_S
    assert view.wait_s() is None
    view._since = now
    assert view.wait_s() == NEAR_EVERY_S


def test_one_thread_looks_however_many_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_view, "NEAR_EVERY_S", 0.01)
    looked, enough = [], threading.Event()

    def look() -> None:
        looked.append(threading.current_thread())
        if len(looked) == 5:
            enough.set()

    view = FreshView(look)
    for _ in range(3):
        view.after_failure()
    assert enough.wait(600)
    assert len(set(looked)) == 1
    view._since = -FAR_S * 2  # its time is over
    looked[0].join(600)
    assert not looked[0].is_alive()


def test_another_ray_costs_one_line_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    def look() -> None:
        raise ImportError("no such actor")

    view = FreshView(look)
    view.after_failure()
    assert view._thread is not None
    view._thread.join(600)
    assert "ImportError: no such actor" in "".join(capfd.readouterr())


def test_this_ray_has_what_is_asked_of_it() -> None:
    """The method and its argument are internal to Ray: a Ray without them is to be noticed here, not on a cluster."""
    import inspect

    from ray.data._internal.cluster_autoscaler import default_autoscaling_coordinator as ray_internal

    assert callable(ray_internal.get_or_create_autoscaling_coordinator)
    actor = ray_internal._AutoscalingCoordinatorActor
    wanted = getattr(actor, "__ray_metadata__", None)
    cls = wanted.modified_class if wanted else actor
    assert "recompute" in inspect.signature(cls.get_reserved_resources).parameters
