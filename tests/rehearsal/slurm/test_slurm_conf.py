"""The slurm.conf of a rehearsal."""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray_sandbox.rehearsal.slurm.conf import DEFAULT, TIMERS_OF, TUNED, Layout, Timers


def layout(timers: Timers = TIMERS_OF[TUNED]) -> Layout:
    return Layout(
        folder=Path("/tmp/x"), host="box", user="me", controller_port=7000, node_ports=(7001, 7002, 7003),
        timers=timers,
    )  # fmt: skip


def lines(timers: Timers = TIMERS_OF[TUNED]) -> list[str]:
    return layout(timers).render().splitlines()


def test_nothing_listens_beyond_loopback() -> None:
    assert "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny" in lines()
    assert "SlurmctldHost=box(127.0.0.1)" in lines()
    nodes = [line for line in lines() if line.startswith("NodeName=")]
    assert len(nodes) == 3
    assert all(" NodeAddr=127.0.0.1 " in line for line in nodes)


def test_each_node_has_a_port_of_its_own() -> None:
    found = [line.partition("Port=")[2].split()[0] for line in lines() if line.startswith("NodeName=")]
    assert found == ["7001", "7002", "7003"]


def test_daemons_run_as_who_rehearses_with_a_munge_of_their_own() -> None:
    assert {"SlurmUser=me", "SlurmdUser=me"} <= set(lines())
    assert any(line.startswith("AuthInfo=socket=/tmp/x/munge.socket,") for line in lines())


def test_every_file_is_below_the_folder() -> None:
    names = ("StateSaveLocation", "SlurmdSpoolDir", "SlurmctldPidFile", "SlurmdPidFile", "SlurmctldLogFile",
             "SlurmdLogFile")  # fmt: skip
    written = dict(line.split("=", 1) for line in lines() if line.split("=", 1)[0] in names)
    assert set(written) == set(names)
    assert all(path.startswith("/tmp/x/") for path in written.values())


def test_a_job_may_grow_by_the_node_that_came_back() -> None:
    assert any("permit_job_expansion" in line for line in lines() if line.startswith("SchedulerParameters="))


def test_the_timers_are_the_ones_asked_for() -> None:
    assert "SlurmdTimeout=5" in lines()
    assert any(line.endswith("cred_expire=5") for line in lines())
    assert any(line.endswith("cred_expire=120") for line in lines(TIMERS_OF[DEFAULT]))


def test_a_node_that_was_only_slow_comes_back_by_itself() -> None:
    """On a busy machine a healthy node may answer late; nothing else would bring it back."""
    assert "ReturnToService=1" in lines()
