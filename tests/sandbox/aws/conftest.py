"""One embedded AWS for this folder's tests; each test removes what it made, or uses names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.aws.attacks_helpers import presigned, session  # noqa: F401 - fixtures
from tests.sandbox.aws.clusters_helpers import clusters  # noqa: F401 - fixtures
from tests.sandbox.aws.fsx_helpers import bucket, subnet  # noqa: F401 - fixtures
from tests.sandbox.aws.process_helpers import state  # noqa: F401 - fixtures
from tests.sandbox.aws.same_rules_helpers import mounted, subnets  # noqa: F401 - fixtures
from tests.sandbox.aws.service_roles_helpers import name  # noqa: F401 - fixtures
from tests.sandbox.aws.stacks_helpers import stacks  # noqa: F401 - fixtures
from tests.support import boto_models, roles
from tests.support.emulator import Emulator, running

boto_models.share()


@pytest.fixture(scope="session")
def shared_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(tmp_path_factory.mktemp("aws")) as emulator:
        roles.node_role(emulator.boto("iam"))
        yield emulator


@pytest.fixture
def emulator(shared_emulator: Emulator) -> Iterator[Emulator]:
    yield shared_emulator
    shared_emulator.control.clear_faults()
