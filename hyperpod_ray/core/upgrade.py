"""What an environment file of an older version needs: its text is rewritten where only one answer is right.

What else an older file needs is said by the checks of every file, with their lines.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hyperpod_ray.core import yaml_edit
from hyperpod_ray.core.errors import Message
from hyperpod_ray.core.loader import EnvironmentFileError, Problem, dotted, located_flaw, unreadable_file
from hyperpod_ray.core.model import (
    ExistingEks,
    ExistingImage,
    ExistingNetwork,
    ExistingStorage,
)
from hyperpod_ray.core.version import __version__, release
from hyperpod_ray.core.yaml_source import Path, YamlError, read

RELEASES = ("0.1.0", "0.2.0", "0.3.0")
"""Every released version; a section of the changelog each."""
FIRST_IN_PLACE = "0.2.0"
"""The oldest version whose environments are upgraded where they are. Those before it are destroyed first."""
_EXISTING: Mapping[str, tuple[str, type]] = {
    "network": ("existing", ExistingNetwork),
    "eks": ("existing", ExistingEks),
    "storage": ("existing", ExistingStorage),
    "image": ("uri", ExistingImage),
}
"""Section: the setting that names what exists, and the settings that may stand beside it since 0.2.0."""
_HOSTS = {
    "grafana_host": "http://prometheus-grafana.prometheus-system.svc:80",
    "grafana_iframe_host": "http://localhost:3000",
    "prometheus_host": "http://prometheus-kube-prometheus-prometheus.prometheus-system.svc:9090",
}
"""Defaults of `ray.observability` in 0.1.0."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of the text, with its reason."""

    path: Path
    why: str


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """An upgraded file."""

    text: str
    changes: tuple[Change, ...]
    destroy_first: bool
    """Whether the environment is destroyed with the old version before it is deployed with this one."""


class _Draft:
    """A text and its data, changed together: that they agree in the end shows that the text says what is meant."""

    def __init__(self, text: str, data: dict[str, Any]) -> None:
        self.text, self.data = text, data
        self.changes: list[Change] = []

    def section(self, *path: str | int) -> dict[str, Any] | None:
        """The mapping at a path; None where there is none."""
        value = self.value(*path)
        return value if isinstance(value, dict) else None

    def value(self, *path: str | int) -> Any:
        """What stands at a path; None where nothing does."""
        value: Any = self.data
        for key in path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def add(self, *path: str, value: Any, why: str) -> None:
        self.text = yaml_edit.added(self.text, path, value)
        parent = self.data
        for key in path[:-1]:
            if not isinstance(parent.get(key), dict):
                parent[key] = {}
            parent = parent[key]
        parent[path[-1]] = value
        self.changes.append(Change(path=path, why=why))

    def replace(self, *path: str, value: Any, why: str) -> None:
        self.text = yaml_edit.replaced(self.text, path, value)
        parent = self.section(*path[:-1])
        assert parent is not None  # noqa: S101  (narrowing only)
        parent[path[-1]] = value
        self.changes.append(Change(path=path, why=why))

    def remove(self, *path: str | int, why: str) -> None:
        self.text = yaml_edit.removed(self.text, path)
        for depth in range(len(path), 0, -1):
            parent = self.section(*path[: depth - 1])
            assert parent is not None  # noqa: S101  (narrowing only)
            del parent[str(path[depth - 1])]
            if parent:
                break
        self.changes.append(Change(path=path, why=why))


def upgraded(text: str, *, since: str, file: str) -> Upgrade:
    """The text of a file as this version needs it.

    Args:
        text: The file's text.
        since: The version that the file is written for.
        file: The file, for messages.

    Raises:
        EnvironmentFileError: The text is no YAML that can be changed; nothing was.
    """
    text, quotes = _with_quotes(text, file=file)
    root, flaws = read(text)
    if root is None or root.kind != "mapping" or flaws:
        raise EnvironmentFileError([located_flaw(flaw, file=file) for flaw in flaws] or _no_settings(file))
    draft = _Draft(text, copy.deepcopy(root.data()))
    draft.changes += quotes
    destroy_first = release(since) < release(FIRST_IN_PLACE)
    try:
        for step in _steps(since):
            step(draft)
        if draft.data.get("written_for") != __version__:
            if "written_for" in draft.data:
                draft.replace("written_for", value=__version__, why="the version of this file")
            else:
                draft.add("written_for", value=__version__, why="a later upgrade begins here")
    except yaml_edit.Unchangeable as error:
        raise _cannot(file, line=root.line_of(()), path=str(error)) from error
    after, flaws = read(draft.text)
    if flaws or after is None or after.data() != draft.data:
        raise _cannot(file, line=1, path="(file)")
    return Upgrade(text=draft.text, changes=tuple(draft.changes), destroy_first=destroy_first)


def _steps(since: str) -> Iterator[Callable[[_Draft], None]]:
    if release(since) < release("0.2.0"):
        yield _existing_alone
        yield _tiered_storage
        yield _hosts_of_metrics
    elif release(since) < release("0.3.0"):
        yield _names_of_what_is_deployed
    if release(since) < release("0.3.0"):
        yield _moved_files
        yield _one_type_of_rule


def _existing_alone(draft: _Draft) -> None:
    """What exists is named alone: settings of a new resource had no effect beside it."""
    for section, (setting, model) in _EXISTING.items():
        settings = draft.section(section)
        if settings is None:
            continue
        if setting in settings and settings[setting] is None:
            draft.remove(section, setting, why="null said that there is none")
            settings = draft.section(section)
        if settings is None or setting not in settings:
            continue
        for key in [key for key in settings if key not in model.model_fields]:  # type: ignore[attr-defined]
            draft.remove(section, key, why=f"{section}.{setting} stands alone, and this had no effect beside it")


def _tiered_storage(draft: _Draft) -> None:
    settings = draft.section("hyperpod")
    if settings is None or "tiered_storage_memory_percent" not in settings:
        return
    percent = settings["tiered_storage_memory_percent"]
    draft.remove("hyperpod", "tiered_storage_memory_percent", why="is a setting of hyperpod.tiered_storage")
    if percent is not None:
        value = {"memory_percent": percent}
        draft.add("hyperpod", "tiered_storage", value=value, why="was hyperpod.tiered_storage_memory_percent")


def _hosts_of_metrics(draft: _Draft) -> None:
    settings = draft.section("ray", "observability")
    for host, address in reversed(_HOSTS.items()) if settings is not None else ():
        if settings is not None and host not in settings:
            draft.add("ray", "observability", host, value=address, why="was the default")


def _moved_files(draft: _Draft) -> None:
    """Files that the product ships moved with the sandbox's package."""
    for section, setting in (("image", "folder"), ("helm", "lock_file")):
        settings = draft.section(section)
        value = settings.get(setting) if settings is not None else None
        if isinstance(value, str) and value.startswith("sandbox/"):
            draft.replace(section, setting, value=f"hyperpod_ray_{value}", why=f"{value} moved")


def _one_type_of_rule(draft: _Draft) -> None:
    """`type` of a rule of hung job detection had one value."""
    rules = draft.value("ray", "hung_job_detection", "rules")
    for number, rule in enumerate(rules if isinstance(rules, list) else ()):
        if isinstance(rule, dict) and "type" in rule and len(rule) > 1:
            path = ("ray", "hung_job_detection", "rules", number)
            draft.remove(*path, "type", why="the service has one type of rule")


def _names_of_what_is_deployed(draft: _Draft) -> None:
    """Names whose defaults changed: another name replaces what is deployed."""
    image = draft.section("image")
    if image is None or not {"uri", "repository_name"} & set(image):
        why = "was the default; another name replaces the repository, and with it its images"
        draft.add("image", "repository_name", value="ray-training", why=why)
    if "log_group_names" not in draft.data:
        why = "0.2.0 let CloudFormation name them; a fixed name replaces the groups of flow logs and events"
        draft.add("log_group_names", value="generated", why=why)


def _with_quotes(text: str, *, file: str) -> tuple[str, list[Change]]:
    """Dates, and keys that are no text, in quotes: 0.2.0 read both as they were written."""
    changes: list[Change] = []
    for _ in range(text.count("\n") + 2):
        flaw = next((flaw for flaw in read(text)[1] if _quotable(flaw)), None)
        if flaw is None:
            return text, changes
        why = "YAML readers differ about it without quotes"
        try:
            edit = yaml_edit.quoted_key if "a key that" in flaw.message.what else yaml_edit.quoted
            text = edit(text, flaw.path)
        except yaml_edit.Unchangeable as error:
            raise EnvironmentFileError([located_flaw(flaw, file=file)]) from error
        changes.append(Change(path=flaw.path, why=why))
    return text, changes


def _quotable(flaw: YamlError) -> bool:
    return "is a date to some YAML readers" in flaw.message.what or "a key that is not text" in flaw.message.what


def _no_settings(file: str) -> list[Problem]:
    reason, fix = "no settings", "name an environment file"
    return unreadable_file(file, reason, expected="an environment file", fix=fix).problems


def _cannot(file: str, *, line: int, path: str) -> EnvironmentFileError:
    message = Message(
        "it is written in a way that cannot be changed as text",
        expected="block style, as `env new` writes it",
        fix=f"change the file by hand: CHANGELOG.md has the upgrade notes of {__version__}",
    )
    problem = located_flaw(YamlError(line, tuple(path.split(".")), message), file=file)
    return EnvironmentFileError([problem])


def sentence(change: Change) -> str:
    """A change in one line."""
    return f"{dotted(change.path)}: {change.why}"
