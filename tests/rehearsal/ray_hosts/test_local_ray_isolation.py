"""A pod's processes: found, signalled and ended, and nobody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.isolation import Process

# a parent, a child and a grandchild that detaches into a session of its own, as Ray's job supervisor does
SCRIPT = "sleep 300 & setsid sleep 301 & sleep 302"


def soon(check: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 600
    while not (result := check()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return result


@pytest.fixture(params=["session", isolation.choose()])
def pod(request: pytest.FixtureRequest) -> Iterator[tuple[isolation.Mode, Process, str]]:
    mode: isolation.Mode = request.param
    marker = f"test-{os.getpid()}-{mode}"
    started = subprocess.Popen(
        [*isolation.PREFIXES[mode], "sh", "-c", SCRIPT],
        env=os.environ | {isolation.MARKER: marker},
        start_new_session=True,
    )
    process = Process.of(started.pid)
    assert soon(lambda: len(sleepers((mode, process, marker))) == 3)  # the shell that starts them names them, too
    yield mode, process, marker
    isolation.destroy(process, mode=mode, marker=marker)


def sleepers(pod: tuple[isolation.Mode, Process, str]) -> list[int]:
    mode, process, marker = pod
    return [
        p
        for p in isolation.members(process, mode=mode, marker=marker)
        if isolation.command_line(p).startswith("sleep 30")
    ]


def test_all_processes_of_a_pod_are_found_and_no_other(pod: tuple[isolation.Mode, Process, str]) -> None:
    assert sorted(isolation.command_line(pid) for pid in sleepers(pod)) == ["sleep 300", "sleep 301", "sleep 302"]
    assert os.getpid() not in isolation.members(pod[1], mode=pod[0], marker=pod[2])


def test_destroy_ends_detached_processes_too(pod: tuple[isolation.Mode, Process, str]) -> None:
    mode, process, marker = pod
    inside = sleepers(pod)
    isolation.destroy(process, mode=mode, marker=marker)
    assert soon(lambda: not any(isolation.command_line(pid).startswith("sleep 30") for pid in inside))
    assert not process.alive


def test_a_frozen_pod_stands_still_and_can_still_be_destroyed(pod: tuple[isolation.Mode, Process, str]) -> None:
    mode, process, marker = pod
    isolation.send(isolation.members(process, mode=mode, marker=marker), signal.SIGSTOP)
    assert soon(lambda: all(isolation._stat(pid)[0] == "T" for pid in sleepers(pod)))
    assert process.alive
    isolation.destroy(process, mode=mode, marker=marker)
    assert soon(lambda: not process.alive)


def test_another_process_under_the_same_id_is_not_taken_for_the_pod() -> None:
    other = Process(pid=os.getpid(), started=1)
    assert not other.alive
    assert isolation.members(other, mode="pid", marker="nobody-has-this") == []
    isolation.destroy(other, mode="pid", marker="nobody-has-this")  # and so does nothing to us


def test_an_ordinary_user_gets_a_namespace_where_the_system_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert isolation.choose() in {"user+pid", "session"}


def test_without_unshare_a_pod_is_a_process_tree_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert isolation.choose() == "session"
    assert "no process namespaces" in isolation.MEANING["session"]
