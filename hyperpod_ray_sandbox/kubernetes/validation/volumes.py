"""Volumes of pods and sources of PersistentVolumes.

Source: validateVolumes, validateVolumeSource and ValidatePersistentVolumeSpec of pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.validation import claims, csi, names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_AMOUNTS = tuple(f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory"))
_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.([a-z0-9.-]+)(:[^,;*&$|\s]+)?")
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def divisor(causes: Causes, path: str, reference: Json) -> None:
    """Judge the unit in which an amount of a container is written."""
    resource, unit = str(reference.get("resource") or "").partition(".")[2], reference.get("divisor")
    if unit is None or number(unit) == 0:
        return
    if resource == "cpu" and number(unit) not in (1, number("1m")):
        why = "only divisor's values 1m and 1 are supported with the cpu resource"
        causes.invalid(f"{path}.divisor", reference["resource"], why)
    elif resource in ("memory", "ephemeral-storage") and str(unit) not in _DIVISORS:
        called = "memory" if resource == "memory" else "local ephemeral storage"
        why = f"only divisor's values {', '.join(_DIVISORS)} are supported with the {called} resource"
        causes.invalid(f"{path}.divisor", reference["resource"], why)


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
    for index, file in enumerate(source.get("items") or []):
        field_path = f"{path}.items[{index}]"
        if not file.get("key"):
            causes.required(f"{field_path}.key")
        _item(causes, field_path, file)


def _item(causes: Causes, path: str, file: Json) -> None:
    if not file.get("path"):
        causes.required(f"{path}.path")
    else:
        relative(causes, f"{path}.path", file["path"])
    _mode(causes, f"{path}.mode", file.get("mode"))


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
    for index, file in enumerate(source.get("items") or []):
        field_path = f"{path}.items[{index}]"
        _item(causes, field_path, file)
        if not file.get("fieldRef") and not file.get("resourceFieldRef"):
            causes.required(field_path, "one of fieldRef and resourceFieldRef is required")
        if file.get("fieldRef") and file.get("resourceFieldRef"):
            causes.invalid(field_path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
        elif file.get("resourceFieldRef"):
            at, reference = f"{field_path}.resourceFieldRef", file["resourceFieldRef"]
            for field in ("containerName", "resource"):
                if not reference.get(field):
                    causes.required(f"{at}.{field}")
                    break
            else:
                if not reference["resource"].startswith(("limits.hugepages-", "requests.hugepages-")):
                    causes.one_of(f"{at}.resource", reference["resource"], _AMOUNTS)
            divisor(causes, at, reference)
        if file.get("fieldRef"):
            plain = str(file["fieldRef"].get("fieldPath", "")).partition("[")[0]
            causes.one_of(f"{field_path}.fieldRef.fieldPath", plain, _FIELDS)


def _projected(causes: Causes, path: str, source: Json) -> None:
    _mode(causes, f"{path}.defaultMode", source.get("defaultMode"))
    files: set[str] = set()
    for index, projection in enumerate(source.get("sources") or []):
        field_path = f"{path}.sources[{index}]"
        for body in (part for name, part in projection.items() if name != "serviceAccountToken"):
            for file in (body or {}).get("items") or [body or {}]:
                if file.get("path") in files:
                    causes.invalid(path, (body or {}).get("name") or file["path"], "conflicting duplicate paths")
                files |= {file["path"]} if file.get("path") else set()
        if len(projection) > 1:
            causes.forbidden(field_path, "may not specify more than 1 volume type")
        for source_type, body in projection.items():
            if source_type in ("secret", "configMap"):
                _config("name")(causes, f"{field_path}.{source_type}", body)
            elif source_type == "downwardAPI":
                _downward(causes, f"{field_path}.{source_type}", body)
            elif source_type == "serviceAccountToken":
                _token(causes, f"{field_path}.{source_type}", body)


def _token(causes: Causes, path: str, source: Json) -> None:
    seconds = source.get("expirationSeconds")
    if isinstance(seconds, int) and seconds < 600:
        causes.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if not source.get("path"):
        causes.required(f"{path}.path")
    else:
        relative(causes, f"{path}.path", source["path"])


def _partition(*fields: str, at: str = "") -> Callable[[Causes, str, Json], None]:
    """A disk that may be parted."""

    def judge(causes: Causes, path: str, source: Json) -> None:
        where = f"{path.rpartition('.')[0]}.{at}" if at else path
        _needs(*fields)(causes, where, source)
        partition = source.get("partition") or 0
        if not 0 <= partition <= 255:
            causes.invalid(f"{where}.partition", partition, "must be between 1 and 255, inclusive")

    return judge


def _iscsi(causes: Causes, path: str, source: Json) -> None:
    _needs("targetPortal", "iqn")(causes, path, source)
    name, unit = source.get("iqn") or "", source.get("lun") or 0
    if name and not name.startswith(("iqn", "eui", "naa")):
        causes.invalid(f"{path}.iqn", name, "must be valid format starting with iqn, eui, or naa")
    elif name.startswith("iqn") and not _IQN.fullmatch(name):
        causes.invalid(f"{path}.iqn", name, "must be valid format")
    if not 0 <= unit <= 255:
        causes.invalid(f"{path}.lun", unit, "must be between 0 and 255, inclusive")


def _fc(causes: Causes, path: str, source: Json) -> None:
    both = [bool(source.get(field)) for field in ("targetWWNs", "wwids")]
    if both[0] == both[1]:
        causes.required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if both[0] and source.get("lun") is None:
        causes.required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif both[0] and not 0 <= source["lun"] <= 255:
        causes.invalid(f"{path}.lun", source["lun"], "must be between 0 and 255, inclusive")


def _storage_os(causes: Causes, path: str, source: Json) -> None:
    if not source.get("volumeName"):
        causes.required(f"{path}.volumeName")
    else:
        names.label(causes, f"{path}.volumeName", source["volumeName"])
    if source.get("volumeNamespace"):
        names.label(causes, f"{path}.volumeNamespace", source["volumeNamespace"])


def _azure_disk(causes: Causes, path: str, source: Json) -> None:
    _needs("diskName", "diskURI")(causes, path, source)
    kind, uri = source.get("kind") or "Shared", source.get("diskURI") or ""
    causes.one_of(f"{path}.kind", kind, ("Dedicated", "Managed", "Shared"))
    managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    if uri and kind == "Managed" and not uri.startswith("/subscriptions/"):
        causes.unsupported(f"{path}.diskURI", uri, (managed,))
    elif uri and kind != "Managed" and not uri.startswith("https://"):
        causes.unsupported(
            f"{path}.diskURI", uri, ("https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",)
        )


def _git(causes: Causes, path: str, source: Json) -> None:
    _needs("repository")(causes, path, source)
    relative(causes, f"{path}.directory", source.get("directory") or "")


def _csi(causes: Causes, path: str, source: Json) -> None:
    csi.driver_name(causes, f"{path}.driver", source.get("driver") or "")


def _image(causes: Causes, path: str, source: Json) -> None:
    causes.one_of(f"{path}.pullPolicy", source.get("pullPolicy"), ("Always", "IfNotPresent", "Never"))


def _nfs(causes: Causes, path: str, source: Json) -> None:
    _needs("server", "path")(causes, path, source)
    if source.get("path") and not source["path"].startswith("/"):
        causes.invalid(f"{path}.path", source["path"], "must be an absolute path")


def _ephemeral(causes: Causes, path: str, source: Json) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        causes.required(f"{path}.volumeClaimTemplate")
        return
    for field, value in (template.get("metadata") or {}).items():
        if value and field not in ("annotations", "labels"):
            causes.forbidden(f"{path}.volumeClaimTemplate.metadata.{field}", "cannot be set for an ephemeral volume")
    names.labels(causes, f"{path}.volumeClaimTemplate.metadata.labels", (template.get("metadata") or {}).get("labels"))
    claims.spec(causes, f"{path}.volumeClaimTemplate.spec", template.get("spec") or {})


SOURCES: dict[str, Callable[[Causes, str, Json], None]] = {
    "hostPath": _host_path,
    "emptyDir": _empty_dir,
    "configMap": _config("name"),
    "secret": _config("secretName"),
    "persistentVolumeClaim": _needs("claimName"),
    "downwardAPI": _downward,
    "projected": _projected,
    "nfs": _nfs,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
    "gitRepo": _git,
    "awsElasticBlockStore": _partition("volumeID"),
    "gcePersistentDisk": _partition("pdName", at="persistentDisk"),
    "iscsi": _iscsi,
    "fc": _fc,
    "storageos": _storage_os,
    "glusterfs": _needs("endpoints", "path"),
    "cephfs": _needs("monitors"),
    "rbd": _needs("monitors", "image"),
    "cinder": _needs("volumeID"),
    "flexVolume": _needs("driver"),
    "vsphereVolume": _needs("volumePath"),
    "azureDisk": _azure_disk,
    "azureFile": _needs("secretName", "shareName"),
    "portworxVolume": _needs("volumeID"),
}


def volumes(causes: Causes, path: str, declared: list[Json] | None) -> set[str]:
    """Judge the volumes of a pod; returns their names."""
    volume_names: set[str] = set()
    for index, volume in enumerate(declared or []):
        field_path, name = f"{path}[{index}]", volume.get("name") or ""
        if not name:
            causes.required(f"{field_path}.name")
        else:
            names.label(causes, f"{field_path}.name", name)
        if name in volume_names:
            causes.duplicate(f"{field_path}.name", name)
        volume_names.add(name)
        sources = [k for k, v in volume.items() if k != "name" and v is not None]
        if not sources:
            causes.required(field_path, "must specify a volume type")
        for source_type in sources[1:]:
            causes.forbidden(f"{field_path}.{source_type}", "may not specify more than 1 volume type")
        for source_type in sources:
            if source_type in SOURCES:
                SOURCES[source_type](causes, f"{field_path}.{source_type}", volume[source_type] or {})
    return volume_names
