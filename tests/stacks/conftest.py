"""Fixtures of this folder: one synth per environment. The CDK's own validation is in `test_gates.py`."""

from __future__ import annotations

import pytest

from hyperpod_ray.core import environment_names
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.identity_helpers import everything, references, role  # noqa: F401 - fixtures
from tests.stacks.image_build_helpers import closed, project  # noqa: F401 - fixtures
from tests.stacks.reachable_helpers import on_eks, world, worlds  # noqa: F401 - fixtures
from tests.stacks.slurm_stacks_helpers import built, either, example, options  # noqa: F401 - fixtures
from tests.stacks.zones_helpers import grown  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def assemblies() -> dict[str, Assembly]:
    """Every shipped environment, synthesized once."""
    return {name: synthesize(name, uploads=True) for name in environment_names()}


@pytest.fixture(scope="session", params=environment_names())
def assembly(request: pytest.FixtureRequest) -> Assembly:
    """Each shipped environment in turn."""
    return synthesize(request.param, uploads=True)
