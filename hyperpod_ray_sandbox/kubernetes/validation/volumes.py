"""Volumes of pods and sources of PersistentVolumes.

Source: validateVolumes, validateVolumeSource and ValidatePersistentVolumeSpec of pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def relative(causes: Causes, path: str, text: str) -> None:
    """Judge a path inside a volume."""
    if text.startswith("/"):
        causes.invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        causes.invalid(path, text, "must not contain '..'")


def _mode(causes: Causes, path: str, value: Any) -> None:
    if isinstance(value, int) and not 0 <= value <= 0o777:
        causes.invalid(path, value, _MODE)


def _items(causes: Causes, path: str, source: Json) -> None:
    _mode(causes, f"{path}.defaultMode", source.get("defaultMode"))
    for index, item in enumerate(source.get("items") or []):
        here = f"{path}.items[{index}]"
        if not item.get("key"):
            causes.required(f"{here}.key")
        _item(causes, here, item)


def _item(causes: Causes, here: str, item: Json) -> None:
    if not item.get("path"):
        causes.required(f"{here}.path")
    else:
        relative(causes, f"{here}.path", item["path"])
    _mode(causes, f"{here}.mode", item.get("mode"))


def _host_path(causes: Causes, path: str, source: Json) -> None:
    if not source.get("path"):
        causes.required(f"{path}.path")
    elif ".." in source["path"].split("/"):
        causes.invalid(f"{path}.path", source["path"], "must not contain '..'")
    causes.one_of(f"{path}.type", source.get("type"), _HOST_PATH_TYPES)


def _empty_dir(causes: Causes, path: str, source: Json) -> None:
    causes.quantity(f"{path}.sizeLimit", source.get("sizeLimit"))


def _needs(*fields: str) -> Callable[[Causes, str, Json], None]:
    def judge(causes: Causes, path: str, source: Json) -> None:
        for field in fields:
            if not source.get(field):
                causes.required(f"{path}.{field}")

    return judge


def _config(name: str) -> Callable[[Causes, str, Json], None]:
    def judge(causes: Causes, path: str, source: Json) -> None:
        if not source.get(name):
            causes.required(f"{path}.{name}")
        _items(causes, path, source)

    return judge


def _downward(causes: Causes, path: str, source: Json) -> None:
    _mode(causes, f"{path}.defaultMode", source.get("defaultMode"))
    for index, item in enumerate(source.get("items") or []):
        here = f"{path}.items[{index}]"
        _item(causes, here, item)
        if not item.get("fieldRef") and not item.get("resourceFieldRef"):
            causes.required(here, "one of fieldRef and resourceFieldRef is required")
        if item.get("fieldRef"):
            plain = str(item["fieldRef"].get("fieldPath", "")).partition("[")[0]
            causes.one_of(f"{here}.fieldRef.fieldPath", plain, _FIELDS)


def _projected(causes: Causes, path: str, source: Json) -> None:
    _mode(causes, f"{path}.defaultMode", source.get("defaultMode"))
    for index, one in enumerate(source.get("sources") or []):
        here = f"{path}.sources[{index}]"
        if len(one) > 1:
            causes.forbidden(here, "may not specify more than 1 volume type")
        for kind, given in one.items():
            if kind in ("secret", "configMap"):
                _config("name")(causes, f"{here}.{kind}", given)
            elif kind == "downwardAPI":
                _downward(causes, f"{here}.{kind}", given)
            elif kind == "serviceAccountToken":
                _token(causes, f"{here}.{kind}", given)


def _token(causes: Causes, path: str, source: Json) -> None:
    seconds = source.get("expirationSeconds")
    if isinstance(seconds, int) and seconds < 600:
        causes.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if not source.get("path"):
        causes.required(f"{path}.path")
    else:
        relative(causes, f"{path}.path", source["path"])


def _nfs(causes: Causes, path: str, source: Json) -> None:
    _needs("server", "path")(causes, path, source)
    if source.get("path") and not source["path"].startswith("/"):
        causes.invalid(f"{path}.path", source["path"], "must be an absolute path")


_SOURCES: dict[str, Callable[[Causes, str, Json], None]] = {
    "hostPath": _host_path,
    "emptyDir": _empty_dir,
    "configMap": _config("name"),
    "secret": _config("secretName"),
    "persistentVolumeClaim": _needs("claimName"),
    "downwardAPI": _downward,
    "projected": _projected,
    "nfs": _nfs,
    "csi": _needs("driver"),
}


def volumes(causes: Causes, path: str, given: list[Json] | None) -> set[str]:
    """Judge the volumes of a pod; returns their names."""
    seen: set[str] = set()
    for index, volume in enumerate(given or []):
        here, name = f"{path}[{index}]", volume.get("name") or ""
        if not name:
            causes.required(f"{here}.name")
        else:
            names.label(causes, f"{here}.name", name)
        if name in seen:
            causes.duplicate(f"{here}.name", name)
        seen.add(name)
        sources = [k for k, v in volume.items() if k != "name" and v is not None]
        if not sources:
            causes.required(here, "must specify a volume type")
        for kind in sources[1:]:
            causes.forbidden(f"{here}.{kind}", "may not specify more than 1 volume type")
        for kind in sources:
            if kind in _SOURCES:
                _SOURCES[kind](causes, f"{here}.{kind}", volume[kind] or {})
    return seen
