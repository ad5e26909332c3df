"""How an environment file keeps what a changed name would replace."""

from __future__ import annotations

from collections.abc import Iterable

from hyperpod_ray.review.changes import ResourceChange

_IMAGES = "Image/Repository"
_LOGS = ("Network/FlowLogs", "Health/Events")


def way_out(change: ResourceChange) -> str:
    """The setting that keeps a resource under the name that it has; empty where no setting does."""
    if change.because == [("RepositoryName",)] and change.title.endswith(_IMAGES):
        name = change.before("RepositoryName")
        return f"image.repository_name: {name}" if isinstance(name, str) else ""
    if change.because == [("LogGroupName",)] and change.title.endswith(_LOGS):
        return f"log_group_names: {'fixed' if change.before('LogGroupName') else 'generated'}"
    return ""


def in_words(changes: Iterable[ResourceChange]) -> str:
    """What keeps resources, as a sentence that follows others; empty where nothing does."""
    settings = sorted({setting for change in changes if (setting := way_out(change))})
    return f" To keep what is there, set {' and '.join(settings)}." if settings else ""
