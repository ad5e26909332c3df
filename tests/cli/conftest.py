"""Fixtures of this folder."""

from __future__ import annotations

from tests.cli.mistakes_helpers import first, project  # noqa: F401 - fixtures
from tests.cli.plan_helpers import folder  # noqa: F401 - fixtures
from tests.cli.slurm_commands_helpers import account  # noqa: F401 - fixtures
