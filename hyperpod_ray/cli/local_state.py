"""What commands of `local` share: where they keep their state, and how a rehearsal fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from hyperpod_ray.cli.options import current, folder
from hyperpod_ray.ops.errors import BAD_USE, OpsError


@contextlib.contextmanager
def rehearsal_errors() -> Iterator[None]:
    """Turn a failure of a rehearsal into one line, and let its processes read the environments of this command.

    Raises:
        OpsError: The product is installed from wheels. A rehearsal runs the product's own jobs, in the environments
            that the Makefile of its checkout makes.
    """
    from hyperpod_ray.core.names import ENVIRONMENTS_VARIABLE
    from hyperpod_ray_sandbox.aws import paths
    from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError

    if paths.INSTALLED:
        raise OpsError(
            "no rehearsal of training here: the product is installed from wheels",
            expected="a checkout of the product, whose Makefile installs Ray and torch",
            fix="run it there; `hyperpod-ray local deploy ENV` rehearses a deployment in any project",
            code=BAD_USE,
        )
    before = os.environ.get(ENVIRONMENTS_VARIABLE)
    with contextlib.suppress(OpsError):
        os.environ[ENVIRONMENTS_VARIABLE] = str(folder())
    try:
        yield
    except LocalError as error:
        raise OpsError.of(error, code=error.code) from error
    finally:
        os.environ.pop(ENVIRONMENTS_VARIABLE, None)
        if before is not None:
            os.environ[ENVIRONMENTS_VARIABLE] = before


def state_folder(given: Path | None) -> Path:
    """The state folder of a command."""
    from hyperpod_ray.core import project
    from hyperpod_ray_sandbox.aws import paths

    if given is not None:
        return given
    top = project.root(current.folder or project.environments())
    return top / ".local" / "aws" if top else paths.STATE
