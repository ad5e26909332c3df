"""Fixtures of `ops`: an environment in the embedded AWS, made once for all tests that only look."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperpod_ray.ops.observe import training
from hyperpod_ray.ops.reach import api_server, clients, connect, jobs_api
from hyperpod_ray_sandbox.aws import install, process
from tests.ops.api_server_helpers import certificates, plain  # noqa: F401 - fixtures
from tests.ops.money_helpers import asked  # noqa: F401 - fixtures
from tests.ops.ops_jobs_api_helpers import clock, head  # noqa: F401 - fixtures
from tests.ops.ops_team_runs_helpers import rules, target  # noqa: F401 - fixtures
from tests.ops.orchestrators_helpers import folder  # noqa: F401 - fixtures
from tests.ops.page_helpers import page_view  # noqa: F401 - fixtures
from tests.ops.price_list_helpers import price_list  # noqa: F401 - fixtures
from tests.ops.ray_head import Head, ray_head
from tests.ops.world import ACCOUNT, World, environment_text
from tests.support import boto_models

boto_models.share()


@pytest.fixture(scope="session")
def start_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Makes empty worlds; stops all of them at the end."""
    if not install.installed():
        pytest.fail("the embedded AWS is not installed: hyperpod-ray local setup")
    worlds: list[World] = []
    # beside a busy suite the embedded AWS and the Kubernetes API are slow, not away; a handshake counts as connecting
    patch = pytest.MonkeyPatch()
    patch.setattr(clients, "CONNECT_SECONDS", 120)
    patch.setattr(clients, "READ_SECONDS", 900)
    patch.setattr(api_server, "CONNECT_SECONDS", 120)
    patch.setattr(api_server, "READ_SECONDS", 900)

    def start(*, seconds_per_state: float = 1.5) -> World:
        state: Path = tmp_path_factory.mktemp("aws")
        running = process.start(state=state, seconds_per_state=seconds_per_state, account=ACCOUNT)
        world = World(running=running, state=state, folder=tmp_path_factory.mktemp("environments"))
        worlds.append(world)
        return world

    yield start
    for world in worlds:
        world.stop()
    patch.undo()


@pytest.fixture(scope="session")
def world(start_world: object) -> World:
    """A healthy environment that tests only look at, or leave as they found it."""
    made: World = start_world()  # type: ignore[operator]
    made.write(environment_text())
    made.create()
    made.install()
    made.settle()
    return made


@pytest.fixture(scope="session")
def ray(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A real Ray head with the token of the world's RayCluster, for all tests that need one.

    Its jobs have credentials of the world's account, as pods have those of their role.
    """
    secret = world.get("/api/v1/namespaces/ray/secrets/ray")["data"]["auth_token"]
    token = base64.b64decode(secret).decode()
    role = {key: value for key, value in world.running.client.environment().items() if key.startswith("AWS_")}
    with ray_head(tmp_path_factory.mktemp("r"), token=token, **role) as started, pytest.MonkeyPatch.context() as patch:
        # beside a busy suite a real Ray is slow, not away
        patch.setattr(connect, "ANSWER_SECONDS", 900)
        patch.setattr(jobs_api, "AGENT_SECONDS", 900)
        patch.setattr(training, "CALL_SECONDS", 900.0)
        yield started


@pytest.fixture
def faults(world: World) -> Iterator[World]:
    """The world, with every injected fault removed afterwards."""
    yield world
    world.running.client.clear_faults()
    world.request("DELETE", "/rehearsal/faults")
