"""How ranks talk is in the journal: parsed from NCCL's own lines, as its releases and aws-ofi-nccl's write them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import Run, Settings, fabric
from tests.resilience.resumable_helpers import events, fit, progress
from tests.resilience.test_resumable import no_process_group_left_behind

__all__ = ["no_process_group_left_behind"]

# lines of public reports, by NCCL and aws-ofi-nccl release; the prefix is NCCL's
AT = "p5-node:1234:1300 [0] "
EFA_OLD = f"""{AT}NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.7.4-aws
{AT}NCCL INFO NET/OFI Selected Provider is efa (found 32 nics)
{AT}NCCL INFO Using network AWS Libfabric
"""
EFA_NEW = f"""{AT}NCCL INFO NET/Plugin: Loaded net plugin Libfabric (v10)
{AT}NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)
{AT}NCCL INFO Successfully loaded external network plugin /opt/amazon/ofi-nccl/lib/libnccl-net.so
{AT}NCCL INFO Assigned NET plugin Libfabric to comm
{AT}NCCL INFO Using network Libfabric
"""
SOCKETS = f"""{AT}NCCL INFO NET/Plugin: Could not find: libnccl-net.so.
{AT}NCCL INFO NET/IB : No device found.
{AT}NCCL INFO NET/Socket : Using [0]eth0:10.0.1.5<0>
{AT}NCCL INFO Using network Socket
"""


@pytest.mark.parametrize(
    ("log", "transport"),
    [
        (EFA_OLD, "efa"),
        (EFA_NEW, "efa"),
        (SOCKETS, "sockets"),
        (SOCKETS.replace("network Socket", "network IB"), "infiniband"),
        (EFA_NEW.replace("provider is efa,", "provider is tcp;ofi_rxm,"), "tcp;ofi_rxm"),
        (EFA_NEW + SOCKETS, "sockets"),  # a later communicator of the same process
        (f"{AT}NCCL INFO Assigned NET plugin Socket to comm\n", "sockets"),
        (f"{AT}NCCL INFO Bootstrap : Using eth0:10.0.1.5<0>\n", ""),
        ("", ""),
        (f"{AT}NCCL INFO Using network Somebody Elses\r\n", "Somebody Elses"),
    ],
)
def test_the_way_that_nccl_sends(log: str, transport: str) -> None:
    assert fabric.transport(log) == transport


def test_nobodys_own_log_is_taken_away() -> None:
    for own in ({"NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG_FILE": "/logs/%h"}):
        environ = dict(own)
        fabric.listen(environ)
        assert environ == own


def test_the_log_of_this_process_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environ: dict[str, str] = {}
    assert fabric.chosen(environ) == ""
    fabric.listen(environ)
    assert environ["NCCL_DEBUG"] == "INFO"
    assert fabric.chosen(environ) == "", "NCCL has written nothing yet"
    (tmp_path / f"nccl-{os.getpid()}.log").write_text(SOCKETS)
    assert fabric.chosen(environ) == "sockets"


def test_efa_is_a_device_or_what_the_pod_was_told(tmp_path: Path) -> None:
    assert not fabric.has_efa({}, devices=tmp_path / "none")
    assert fabric.has_efa({"FI_PROVIDER": "efa"}, devices=tmp_path / "none")
    (tmp_path / "mlx5_0").mkdir()
    assert not fabric.has_efa({}, devices=tmp_path)
    (tmp_path / "rdmap79s0").mkdir()
    assert fabric.has_efa({}, devices=tmp_path)


def test_ranks_of_one_node_need_no_fabric() -> None:
    assert fabric.across_nodes(16, {"LOCAL_WORLD_SIZE": "8"})
    assert not fabric.across_nodes(8, {"LOCAL_WORLD_SIZE": "8"})
    assert not fabric.across_nodes(1, {})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(storage=str(tmp_path / "runs"), name="run", save_every_steps=3, settings=Settings())


@pytest.mark.slow
def test_it_is_in_the_journal_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL writes while the first step is under way; the backend is its stand-in here."""
    monkeypatch.setattr(fabric, "uses_nccl", lambda: True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("NCCL_DEBUG", raising=False)
    monkeypatch.delenv("NCCL_DEBUG_FILE", raising=False)
    monkeypatch.setenv("FI_PROVIDER", "efa")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "0")

    def at_step(training: Any, step: int) -> None:
        assert os.environ["NCCL_DEBUG"] == "INFO", "before the loop began"
        if step == 1:
            (tmp_path / f"nccl-{os.getpid()}.log").write_text(SOCKETS)

    fit(run, at_step=at_step)
    (event,) = events(run, "transport")
    assert (event["transport"], event["efa"], event["across_nodes"]) == ("sockets", True, True)
    assert progress(run)["transport"] == "sockets"


@pytest.mark.slow
def test_gloo_has_none_and_an_earlier_starts_is_forgotten(run: Run) -> None:
    fit(run)
    assert events(run, "transport") == []
    assert progress(run)["transport"] == ""
