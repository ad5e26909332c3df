from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops import output
from hyperpod_ray.ops.acceptance import check
from hyperpod_ray.ops.errors import CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.orchestrators.eks import node_check
from hyperpod_ray.ops.orchestrators.eks.node_check import EksNodeCheck
from hyperpod_ray.ops.orchestrators.node_check import MARK, Measured, Request
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach import clients, jobs_api
from hyperpod_ray.planner import checked_nodes
from tests.ops.nodes_check_helpers import Json, cluster_of, slow_pairs, text_of
from tests.ops.ops_jobs_api_helpers import Head, reads
from tests.ops.snapshots import ONE, THREE, TWO, healthy, pod


@pytest.fixture
def target(tmp_path: Path) -> clients.Target:
    (tmp_path / "prod.yaml").write_text((FOLDER / "prod.yaml").read_text())
    return clients.target("prod", folder=tmp_path)


def test_the_test_is_written_into_the_journal_and_drawn(
    target: clients.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "now", lambda: datetime(2026, 11, 23, 8, 30, tzinfo=UTC))
    answer = slow_pairs(cluster_of(3, write=9.0), 1, 30.0)
    hosts = {f"pod-{number}": f"i-{number}" for number in range(3)}
    monkeypatch.setattr(EksNodeCheck, "measured", lambda *_: Measured(answer=answer, hosts=hosts))
    drawing = tmp_path / "check.svg"
    assert check.run(target, Request(), form=Format.table, picture=drawing) == CONDITION_FALSE
    said = capsys.readouterr()
    assert "! i-1: fabric: slow: 240 GB/s with its best partner, 67% of the others' 360" in said.out
    assert "next: hyperpod-ray nodes show prod i-1" in said.err
    words = text_of(drawing.read_text())
    assert "i-1 (faulty)" in words and "i-0 (good)" in words and "prod: 3 nodes on 2026-11-23, 1 faulty (i-1)" in words
    kept = checked_nodes.newest("prod", tmp_path)
    assert kept is not None
    assert (kept.faulty, kept.transport, kept.all_reduce_gb_s, kept.write_gb_s) == (
        ["i-1"],
        "AWS Libfabric",
        370.0,
        27.0,
    )
    assert kept.sentence == "3 nodes on 2026-11-23, 1 faulty (i-1); all-reduce 370 GB/s over AWS Libfabric"


def test_good_nodes_end_with_zero_and_the_json_has_every_figure(
    target: clients.Target, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Measured(answer=cluster_of(2, write=9.0), hosts={})
    monkeypatch.setattr(EksNodeCheck, "measured", lambda *_: measured)
    assert check.run(target, Request(), form=Format.json) == OK
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "nodes-check"
    assert data["expected"]["network_gb_s"] == 400.0
    assert [node["pair_gb_s"] for node in data["nodes"]] == [360.0, 360.0]
    assert data["findings"] == []


@pytest.mark.parametrize(
    ("busy", "words"), [([], "there is no node to measure"), ([{"host": "pod-1"}], "no node is free: i-1")]
)
def test_nothing_to_measure_is_said_with_exit_code_three(
    target: clients.Target, monkeypatch: pytest.MonkeyPatch, busy: list[Json], words: str
) -> None:
    answer = {"answers": [], "busy": busy, "cuda": False, "ranks": 1}
    measured = Measured(answer=answer, hosts={"pod-1": "i-1"})
    monkeypatch.setattr(EksNodeCheck, "measured", lambda *_: measured)
    with pytest.raises(OpsError, match=words) as refused:
        check.run(target, Request(), form=Format.table)
    assert refused.value.code == CONDITION_FALSE
    assert checked_nodes.newest("prod", target.folder) is None


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_measured(
    target: clients.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EksNodeCheck, "measured", lambda *_: pytest.fail("measured"))
    with pytest.raises(OpsError, match="does not exist"):
        check.run(target, Request(), form=Format.table, picture=tmp_path / "none" / "a.svg")


PODS = {"w1": ONE.id, "w2": TWO.id, "w3": TWO.id}


def checks(head: Head, *states: Any, logs: str) -> None:
    reads(head, *states, logs=logs, package=node_check.package()[0])


def test_nodes_are_measured_by_a_job_that_is_stopped_and_deleted(head: Head, clock: list[float]) -> None:
    answers = {"answers": [], "busy": ["w9"]}
    checks(head, {"status": "RUNNING"}, {"status": "SUCCEEDED"}, logs=f"x\n{MARK}{json.dumps(answers)}\n")
    request = Request(seconds=30, storage="/fsx/tmp/")
    content = request.content(hosts=["w1"])
    assert node_check.measured_by_ray(head.jobs, content) == answers
    submitted = next(json.loads(body) for _, path, _, body in head.asked if path == "/api/jobs/")
    words = shlex.split(submitted["entrypoint"])
    assert words[:3] == ["python", "-m", "hyperpod_ray_check.ray_probe"]
    assert json.loads(words[3]) == content
    assert (content["seconds"], content["limit"], content["storage_mib"]) == (30, 630, 4096)
    assert re.fullmatch("/fsx/tmp/.nodes-check-[0-9a-f]{8}", content["storage"])
    assert jobs_api.is_ours(submitted)
    assert [call.partition(" ")[0] for call in head.calls()[-2:]] == ["POST", "DELETE"]
    assert head.calls()[-2].endswith("/stop"), "a job that runs keeps its GPUs"
    with zipfile.ZipFile(io.BytesIO(node_check.package()[1])) as archive:
        modules = ("__init__", "node_probe", "ray_probe")
        assert set(archive.namelist()) == {f"hyperpod_ray_check/{module}.py" for module in modules}
    assert Request(storage="none").folder == ""
    assert Request().folder.startswith("/fsx/.nodes-check-")


def test_a_measurement_without_an_answer_is_a_condition_that_is_false(head: Head, clock: list[float]) -> None:
    for states, logs, says in (
        (
            {"status": "FAILED", "message": "m"},
            "Traceback\nImportError: torch\n",
            "the test FAILED: ImportError: torch",
        ),
        ({"status": "FAILED", "message": "own words"}, "", "the test FAILED: own words"),
        ({"status": "PENDING"}, "", "the test is PENDING after 300 s"),
    ):
        checks(head, states, logs=logs)
        before = clock[0]
        with pytest.raises(OpsError, match=says) as failed:
            node_check.measured_by_ray(head.jobs, {"limit": 0})
        assert failed.value.code == CONDITION_FALSE
        assert (clock[0] - before > 300) is (states["status"] == "PENDING")
        assert head.calls()[-1].startswith("DELETE ")


def test_nodes_that_are_named_are_their_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Json] = []

    def measure(_: Any, content: Json) -> Json:
        measured.append(content)
        return {"answers": []}

    @contextlib.contextmanager
    def jobs_of(_: Any, *, address: str) -> Iterator[Any]:
        yield SimpleNamespace(address=address)

    pods = tuple(pod(name, ONE if identifier == ONE.id else TWO) for name, identifier in PODS.items())
    snapshot = replace(healthy(), pods=(*pods, pod("pending", None)))
    monkeypatch.setattr(gather, "snapshot", lambda _, only: snapshot)
    monkeypatch.setattr(node_check, "jobs_of", jobs_of)
    monkeypatch.setattr(node_check, "measured_by_ray", measure)
    nodes: Any = SimpleNamespace(find=lambda name: next(i for i in snapshot.instances if i.id == name))
    target: Any = SimpleNamespace(name="demo")
    check = node_check.EksNodeCheck(target, nodes)
    for request, hosts, ids in (
        (Request(), [], PODS),
        (Request(nodes=(TWO.id, ONE.id)), ["w2", "w3", "w1"], PODS),
        (Request(nodes=("10.0.0.7",), address="http://h:8265"), ["10.0.0.7"], {}),
    ):
        assert check.measured(request).hosts == ids
        assert measured[-1]["hosts"] == hosts
    with pytest.raises(OpsError, match=f"--node: {THREE.id} has no Ray pod") as refused:
        check.measured(Request(nodes=(THREE.id,)))
    assert refused.value.code == CONDITION_FALSE
