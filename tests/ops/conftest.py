"""Fixtures of `ops`: an environment in the embedded AWS, made once for all tests that only look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.aws import install, process
from tests.ops.world import ACCOUNT, World, environment_text
from tests.support import boto_models

boto_models.share()


@pytest.fixture(scope="session")
def start_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Makes empty worlds; stops all of them at the end."""
    if not install.installed():
        pytest.fail("the embedded AWS is not installed: hyperpod-ray local setup")
    worlds: list[World] = []

    def start(*, seconds_per_state: float = 1.5) -> World:
        state: Path = tmp_path_factory.mktemp("aws")
        running = process.start(state=state, port=_port(), seconds_per_state=seconds_per_state, account=ACCOUNT)
        world = World(running=running, state=state, folder=tmp_path_factory.mktemp("environments"))
        worlds.append(world)
        return world

    yield start
    for world in worlds:
        process.stop(world.running, world.state)


def _port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def world(start_world: object) -> World:
    """A healthy environment that tests only look at, or leave as they found it."""
    made: World = start_world()  # type: ignore[operator]
    made.write(environment_text())
    made.create()
    made.install()
    made.settle()
    return made


@pytest.fixture
def faults(world: World) -> Iterator[World]:
    """The world, with every injected fault removed afterwards."""
    yield world
    world.running.client.clear_faults()
    world.request("DELETE", "/rehearsal/faults")
