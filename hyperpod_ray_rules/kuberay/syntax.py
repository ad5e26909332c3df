"""Names, labels, versions and schedules as Kubernetes and the operator parse them."""

from __future__ import annotations

import re
import zoneinfo

MAXIMUM_CLUSTER_NAME = 53
"""Characters of a RayCluster's name: its pods' names end in a suffix and have 63."""
MAXIMUM_JOB_NAME = MAXIMUM_CLUSTER_NAME - 6
"""A RayJob's cluster has its name, a hyphen and five characters."""
MAXIMUM_CRON_JOB_NAME = MAXIMUM_JOB_NAME - 11
"""A RayCronJob's RayJob has its name, a hyphen and the minute of its schedule."""

_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VERSION = re.compile(r"\s*v?(\d+(?:\.\d+)+)")
_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|0")


def dns1035(name: str) -> list[str]:
    """Why `name` is no DNS label that begins with a letter."""
    problems = []
    if len(name) > 63:
        problems.append("must be no more than 63 characters")
    if not _DNS1035.fullmatch(name):
        problems.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
            "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )
    return problems


def label_key(key: str) -> list[str]:
    """Why `key` is no label key (a qualified name)."""
    prefix, slash, name = key.rpartition("/")
    problems = []
    if slash and (not _SUBDOMAIN.fullmatch(prefix) or len(prefix) > 253):
        problems.append("prefix part must be a DNS-1123 subdomain of at most 253 characters")
    if not _NAME.fullmatch(name):
        problems.append("name part must consist of alphanumeric characters, '-', '_' or '.'")
    if len(name) > 63:
        problems.append("name part must be no more than 63 characters")
    return problems


def label_value(value: str) -> list[str]:
    """Why `value` is no label value."""
    if len(value) > 63:
        return ["must be no more than 63 characters"]
    if value and not _NAME.fullmatch(value):
        return [
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character"
        ]
    return []


def version(text: str) -> tuple[int, ...] | None:
    """Major, minor and patch of a version such as `2.60.0`, None where there are fewer than two numbers."""
    match = _VERSION.match(text)
    return (*(int(part) for part in match[1].split(".")), 0)[:3] if match else None


FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
"""Fields of a cron schedule: name, smallest, largest, words."""
DESCRIPTORS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}


def schedule(text: str) -> str:
    """Why `text` is no schedule of five cron fields or a descriptor; empty when it is one."""
    if not text:
        return "empty spec string"
    if text.startswith("@"):
        every = text.removeprefix("@every ")
        recognized = text in DESCRIPTORS or (every != text and _DURATION.fullmatch(every))
        return "" if recognized else f"unrecognized descriptor: {text}"
    parts = text.split()
    if len(parts) != len(FIELDS):
        return f"expected exactly {len(FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]"
    for part, (_, low, high, words) in zip(parts, FIELDS, strict=True):
        for piece in part.split(","):
            if problem := _range(piece, low, high, words):
                return problem
    return ""


def _range(text: str, low: int, high: int, words: tuple[str, ...]) -> str:
    """Why `text` is no `*`, `?`, number or range with an optional step."""
    span, slash, step = text.partition("/")
    if slash and (not step.isdigit() or int(step) == 0):
        return f"step of range should be a positive number: {text}"
    if span in {"*", "?"}:
        return ""
    ends = []
    for bound in span.split("-"):
        if bound.lower() in words:
            ends.append(words.index(bound.lower()) + low)
        elif bound.isdigit():
            ends.append(int(bound))
        else:
            return f"failed to parse int from {bound}: {text}"
    problems = (
        (len(ends) > 2, "too many hyphens"),
        (ends[0] < low, f"beginning of range ({ends[0]}) below minimum ({low})"),
        (ends[-1] > high, f"end of range ({ends[-1]}) above maximum ({high})"),
        (ends[0] > ends[-1], f"beginning of range ({ends[0]}) beyond end of range ({ends[-1]})"),
    )
    return next((f"{problem}: {text}" for failed, problem in problems if failed), "")


def time_zone(name: str) -> bool:
    """Whether the IANA database has the zone; true where this machine has no database to ask."""
    zones = zoneinfo.available_timezones()
    return name in {"UTC", "Local"} or not zones or name in zones
