"""The version that a file is written for."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, error, rule
from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.core.version import __version__, release


@rule("written_for")
def the_file_is_not_newer(plan: CommonPlan) -> Iterator[Finding]:
    """A newer version's file may have settings, and meanings of settings, that this version does not know."""
    version = plan.settings.written_for
    if version is not None and release(version) > release(__version__):
        yield error(
            "written_for",
            what=f"{version}, and this is {PROGRAM} {__version__}",
            expected="a version of the file that is not newer",
            fix=f"install {PROGRAM} {version} or newer",
        )
