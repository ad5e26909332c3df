"""The tiered writer with AWS's own package: the nodes' memory at port 9200, every few saves in S3, back from both."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from amzn_sagemaker_checkpointing.storage.clients.s3 import s3_client

from hyperpod_ray.core.needs import CHECKPOINT_MEMORY
from hyperpod_ray_training import InputError, Resumable, Run, Settings, Unrecoverable
from tests.resilience.tier_service import Memory, Objects, bucket_location, memory_service

STEPS, EVERY = 12, 2
BASE = "s3://tier-test-111122223333-us-west-2/checkpoints"


@pytest.fixture(autouse=True)
def no_process_group_left_behind() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """The memory service under the very name and port that the network policy opens; every other name is unknown."""
    known = socket.getaddrinfo
    with memory_service() as service, bucket_location() as s3:

        def resolve(host: str, port: int, *more: Any, **named: Any) -> Any:
            if (host, port) == CHECKPOINT_MEMORY:
                return known("127.0.0.1", service.port, *more, **named)
            assert host in {"127.0.0.1", "localhost", socket.gethostname()}, f"asked for {host}:{port}"
            return known(host, port, *more, **named)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        monkeypatch.setattr(s3_client, "S3Checkpoint", Objects)
        monkeypatch.setattr(Objects, "held", {})
        for name, value in {
            "TIERED_S3_BASE": BASE,
            "TIERED_S3_EVERY_SAVES": "2",
            "AWS_ENDPOINT_URL_S3": s3,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-west-2",
            "AWS_DEFAULT_REGION": "us-west-2",
        }.items():
            monkeypatch.setenv(name, value)
        yield service


@pytest.fixture
def run(tmp_path: Path) -> Run:
    # in the foreground: which save is the last before the stop does not hang on the machine's load
    return tiered(tmp_path, async_save=False)


def tiered(folder: Path, *, async_save: bool) -> Run:
    return Run(
        storage=str(folder),
        name="run",
        save_every_steps=EVERY,
        keep=10,
        writer="tiered",
        async_save=async_save,
        settings=Settings(),
    )


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(10, 20)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    hooks = ["config['began']", "memory"]  # what the test and its fixture note is no state of the loop
    with Resumable(config["run"], model=model, optimizer=optimizer, recomputed=hooks) as training:
        for step in training.steps(STEPS):
            config["began"].append(step)
            if "at_step" in config:
                config["at_step"](training, step)
            if step == config.get("stop_at"):
                raise RuntimeError("stopped by the test")
            x = torch.randn(8, 10)
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.finished(step, loss=loss.item())
    config["weights"].append(model.weight.detach().clone())


def fit(run: Run, **config: Any) -> tuple[int, torch.Tensor]:
    """The first step of this attempt, and the weights at its end."""
    began: list[int] = []
    weights: list[torch.Tensor] = []
    run.fit(loop, config={"began": began, "weights": weights, **config}, workers=0)
    return began[0], weights[0]


def stopped(run: Run, at: int) -> None:
    with pytest.raises(RuntimeError, match="stopped by the test"):
        fit(run, stop_at=at)
    dist.destroy_process_group()


def in_s3() -> set[int]:
    """Steps of which S3 has data and metadata."""
    found: dict[int, set[str]] = {}
    for url in Objects.held:
        assert url.startswith(f"{BASE}/run/"), url
        step = re.search(r"/step_(\d+)/", url)
        assert step, url
        found.setdefault(int(step[1]), set()).add(url.rpartition("/")[2])
    return {step for step, files in found.items() if files == {"checkpoint.pt", "metadata.metadata"}}


@pytest.fixture
def undisturbed(tmp_path: Path) -> torch.Tensor:
    return fit(Run(storage=str(tmp_path), name="undisturbed", save_every_steps=EVERY, settings=Settings()))[1]


def test_every_save_is_in_memory_and_every_second_one_in_s3(memory: Memory, run: Run) -> None:
    stopped(run, at=9)
    assert memory.ranks == {"run": 2}, "one rank, and its metadata"
    assert memory.steps("run") == [4, 6, 8], "the service keeps three"
    assert memory.steps("run", rank=1) == [4, 6, 8]
    assert in_s3() == {4, 8}
    pointers = sorted(Path(run.url).glob("step-*/tiered.json"))
    assert len(pointers) == 4, "what the folder has is a pointer each"
    assert not list(Path(run.url).glob("step-*/*.distcp"))


def test_a_run_goes_on_from_memory(memory: Memory, run: Run, undisturbed: torch.Tensor) -> None:
    stopped(run, at=7)
    assert (memory.steps("run")[-1], in_s3()) == (6, {4})
    began, weights = fit(run)
    assert began == 6
    assert torch.equal(weights, undisturbed)


def test_it_goes_on_from_s3_when_every_node_was_replaced(memory: Memory, run: Run, undisturbed: torch.Tensor) -> None:
    stopped(run, at=7)
    memory.lose()
    began, weights = fit(run)
    assert began == 4, "the newest that S3 has"
    assert torch.equal(weights, undisturbed)


def test_the_save_of_a_drain_is_in_s3_whatever_its_number(memory: Memory, run: Run) -> None:
    """Memory goes with the nodes, and a drain says that they go."""

    def begun(training: Resumable, step: int) -> None:
        if step == 5:
            training.save("drain", wait=True)

    with pytest.raises(RuntimeError, match="stopped by the test"):
        fit(run, stop_at=5, at_step=begun)
    dist.destroy_process_group()
    assert in_s3() == {4, 5}, "of every second save, step 4 is one; the third, of step 5, is the drain's"


def test_what_neither_has_is_said_and_nothing_begins_anew(memory: Memory, run: Run) -> None:
    stopped(run, at=7)
    memory.lose()
    Objects.held.clear()
    with pytest.raises(Unrecoverable, match="has no usable checkpoint"):
        fit(run)


@pytest.mark.usefixtures("memory")
def test_ray_deletes_nothing_of_what_it_reports(tmp_path: Path) -> None:
    """Saves in the background, as jobs do; S3 is pruned by the bucket's lifecycle rule only."""
    fit(tiered(tmp_path, async_save=True))
    assert 12 in in_s3(), "the last save is a durable one"
    assert {4, 8} <= in_s3()


def test_without_its_package_it_is_refused_in_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("amzn_sagemaker_checkpointing")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"writer tiered: .* Expected the package amzn-sagemaker-checkpointing"):
        fit(run)


@pytest.mark.parametrize(("name", "value"), [("TIERED_S3_BASE", "/fsx"), ("TIERED_S3_EVERY_SAVES", "0")])
@pytest.mark.usefixtures("memory")
def test_a_wrong_variable_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"{name}: '{value}'"):
        fit(run)
