"""What a changed `AWS::FSx::FileSystem` does while training reads and writes it (replacement: see `general`)."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.effects.in_place import only_tags
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Row
from hyperpod_ray_rules import fsx

_PAUSE = "clients retry by themselves, so that training pauses and does not fail"


def find(changes: Changes, findings: Findings) -> None:
    """Rows for each file system changed in place."""
    for change in changes.of_type("AWS::FSx::FileSystem"):
        if change.kind is Kind.CHANGED and not only_tags(change):
            if change.now("FileSystemType") == "OPENZFS":
                _homes(change, findings)
            else:
                _file_system(change, findings)
        elif change.kind is Kind.REPLACED:
            common: dict[str, Any] = {"what": f"file system {change.title}", "where": change.title}
            for pointer in (_LUSTRE_BACKUPS, _HOMES_BACKUPS):
                _backups(change, findings, common, pointer=pointer)
    _links(changes, findings)


_LINK = "AWS::FSx::DataRepositoryAssociation"


def _links(changes: Changes, findings: Findings) -> None:
    """Links to S3: one that takes the place of another is refused, and new events change files or objects."""
    of_type = list(changes.of_type(_LINK))
    leaving = [change for change in of_type if change.kind is Kind.REMOVED]
    for change in of_type:
        common: dict[str, Any] = {
            "what": f"link to S3 {change.title}",
            "where": change.title,
            "source": source("fsx-link"),
        }
        if change.kind is Kind.ADDED:
            path, s3_path = str(change.now("FileSystemPath")), str(change.now("DataRepositoryPath"))
            for removed in leaving:
                before, s3_before = str(removed.before("FileSystemPath")), str(removed.before("DataRepositoryPath"))
                if not overlap(path, before) and s3_path != s3_before:
                    continue
                findings.add(
                    Row(
                        effect=Effect.REJECTED,
                        code="link-moved",
                        change=f"{before} ↔ {s3_before} becomes {path} ↔ {s3_path}",
                        consequence="FSx links a folder and a place in S3 once. CloudFormation makes the new link "
                        "before it deletes the old one, and the service refuses. Deploy without the link first, then "
                        "with the new one.",
                        **common,
                    )
                )
        elif change.kind is Kind.CHANGED and change.differs("S3"):
            imports, exports = (_events(change, policy) for policy in ("AutoImportPolicy", "AutoExportPolicy"))
            if stopped := _no_longer(change, "AutoImportPolicy"):
                findings.add(
                    Row(
                        code="import-off",
                        change="; ".join(stopped),
                        consequence="Files that are there stay. Jobs read what the bucket had until now: what is "
                        "new or changed there does not arrive, and nothing says so.",
                        **severity.of_class("import-off") | {key: common[key] for key in ("what", "where")},
                    )
                )
            if stopped := _no_longer(change, "AutoExportPolicy"):
                findings.add(
                    Row(
                        code="copies-off",
                        change="; ".join(stopped),
                        consequence="Nothing that is there goes. From now on a file, also a checkpoint, is on the file "
                        "system alone, and in the bucket there is none or an old one.",
                        **severity.of_class("copies-off") | {key: common[key] for key in ("what", "where")},
                    )
                )
            findings.add(
                Row(
                    effect=Effect.LOSES_DATA if _new_deletes(change) else Effect.SAFE,
                    code="link-events",
                    change=f"imports {imports}; exports {exports}",
                    consequence="In place." + "".join(f" {text}" for text in _new_deletes(change)),
                    **common,
                )
            )


def overlap(folder: str, other_folder: str) -> bool:
    """Whether two folders of a file system are one, or one is in the other."""
    a, b = (f"{path.rstrip('/')}/" for path in (folder, other_folder))
    return a.startswith(b) or b.startswith(a)


def _events(change: ResourceChange, policy: str) -> str:
    before, after = (", ".join(get("S3", policy, "Events") or ["nothing"]) for get in (change.before, change.now))
    return after if before == after else f"{before} → {after}"


def _no_longer(change: ResourceChange, policy: str) -> list[str]:
    """Copies of new and changed files that are no longer written."""
    before, after = ({*(get("S3", policy, "Events") or [])} - {"DELETED"} for get in (change.before, change.now))
    verb = "imports" if policy == "AutoImportPolicy" else "exports"
    return [f"no longer {verb} {', '.join(sorted(before - after))}"] if before - after else []


def _new_deletes(change: ResourceChange) -> list[str]:
    """What is deleted from now on that was not before."""
    sentences = {
        "AutoImportPolicy": "From now on an object that is deleted in the bucket deletes its file.",
        "AutoExportPolicy": "From now on a file that is deleted deletes its object in the bucket.",
    }
    return [
        text
        for policy, text in sentences.items()
        if "DELETED" in (change.now("S3", policy, "Events") or [])
        and "DELETED" not in (change.before("S3", policy, "Events") or [])
    ]


def _file_system(change: ResourceChange, findings: Findings) -> None:
    common: dict[str, Any] = {"what": f"file system {change.title}", "where": change.title}
    # the sources disagree on whether these replace the file system: the worse counts
    kept = (change.head or {}).get("UpdateReplacePolicy") in {"Retain", "RetainExceptOnCreate", "Snapshot"}
    disputed = max(Effect.INTERRUPTS, severity.when_gone(change.type, kept=kept))
    doubt = f" But {facts()['disputed'][change.type]['why']}."
    handled = {("StorageCapacity",), ("FileSystemTypeVersion",), *_LUSTRE}
    if change.differs("StorageCapacity"):
        findings.add(
            _capacity(int(change.before("StorageCapacity") or 0), int(change.now("StorageCapacity") or 0), common)
        )
    if change.differs("LustreConfiguration", "PerUnitStorageThroughput"):
        before, after = (get("LustreConfiguration", "PerUnitStorageThroughput") for get in (change.before, change.now))
        findings.add(
            Row(
                effect=disputed,
                code="file-system-throughput",
                change=f"PerUnitStorageThroughput {before} → {after} MB/s per TiB",
                consequence="In place: the file servers are switched out and the file system is unavailable for "
                f"a few minutes; {_PAUSE}. Requests must be six hours apart.{doubt}",
                unavailable=f"{names.MOUNT_PATH}, for a few minutes",
                source=source("fsx-throughput"),
                **common,
            )
        )
    if change.differs("FileSystemTypeVersion"):
        before, after = str(change.before("FileSystemTypeVersion")), str(change.now("FileSystemTypeVersion"))
        newer = _version(after) > _version(before)
        findings.add(
            Row(
                effect=disputed if newer else Effect.REJECTED,
                code="lustre-version" if newer else "lustre-downgrade",
                change=f"FileSystemTypeVersion {before} → {after}",
                consequence="In place by UpdateFileSystem, once every client has unmounted it: end training and "
                f"all Ray pods first.{doubt}"
                if newer
                else "A file system's Lustre version only goes up: the service refuses.",
                unavailable=f"{names.MOUNT_PATH}, from unmounting until the update is done" if newer else "",
                source=source("fsx-update"),
                **common,
            )
        )
    _elastic(change, findings, common)
    _backups(change, findings, common)
    if change.differs("LustreConfiguration", "DataCompressionType"):
        before, after = (get("LustreConfiguration", "DataCompressionType") for get in (change.before, change.now))
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="file-system-setting",
                change=f"DataCompressionType {before} → {after}",
                consequence="In place; only data written from then on is stored the new way.",
                source=source("fsx-update"),
                **common,
            )
        )
    rest = sorted(
        {
            ".".join(pointer)
            for pointer in change.changed
            if not any(pointer[: len(prefix)] == prefix for prefix in handled)
        }
    )
    harmless = {"Tags", "DeletionPolicy", "UpdateReplacePolicy", "LustreConfiguration.WeeklyMaintenanceStartTime",
        "LustreConfiguration.DailyAutomaticBackupStartTime"}  # fmt: skip
    if rest:
        documented = set(rest) <= harmless
        findings.add(
            Row(
                effect=Effect.SAFE if documented else Effect.INTERRUPTS,
                code="file-system-setting",
                change=", ".join(rest),
                consequence="In place."
                if documented
                else "In place by the registry schema; whether clients notice is not known here.",
                source=source("fsx-update"),
                **common,
            )
        )


_SIZE = ("StorageCapacity",)
_THROUGHPUT = ("OpenZFSConfiguration", "ThroughputCapacity")
_HOMES_BACKUPS = ("OpenZFSConfiguration", "AutomaticBackupRetentionDays")


def _homes(change: ResourceChange, findings: Findings) -> None:
    """OpenZFS with home folders: it grows while it is used, and another throughput switches its server out."""
    common: dict[str, Any] = {"what": f"file system {change.title}", "where": change.title}
    if change.differs(*_SIZE):
        before, after = (int(get(*_SIZE) or 0) for get in (change.before, change.now))
        grows = not [*fsx.update_openzfs(*(_with_size(change, size) for size in (before, after)))]
        findings.add(
            Row(
                effect=Effect.SAFE if grows else Effect.REJECTED,
                code="homes-grown" if grows else "homes-shrunk",
                change=f"StorageCapacity {before} → {after} GiB",
                consequence="In place and without a pause."
                if grows
                else "An OpenZFS file system grows by a tenth or more: the service refuses.",
                source=source("openzfs-capacity"),
                **common,
            )
        )
    if change.differs(*_THROUGHPUT):
        before, after = (get(*_THROUGHPUT) for get in (change.before, change.now))
        standby = "_HA_" in str(change.now("OpenZFSConfiguration", "DeploymentType"))
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="homes-throughput",
                change=f"ThroughputCapacity {before} → {after} MB/s",
                consequence="In place: "
                + (
                    "the standby server takes over and gives back; NFS clients wait for it."
                    if standby
                    else "the server is switched out, and home folders are unavailable for a few minutes."
                ),
                unavailable=f"{names.HOMES_PATH}, for {'seconds' if standby else 'a few minutes'}",
                source=source("openzfs-throughput"),
                **common,
            )
        )
    _backups(change, findings, common, pointer=_HOMES_BACKUPS)
    rest = sorted({".".join(pointer) for pointer in change.changed} - {".".join(path) for path in _OF_HOMES})
    if rest:
        findings.add(
            Row(
                effect=Effect.SAFE
                if set(rest) <= {"Tags", "DeletionPolicy", "UpdateReplacePolicy"}
                else Effect.INTERRUPTS,
                code="file-system-setting",
                change=", ".join(rest),
                consequence="In place by the registry schema.",
                source=source("fsx-update"),
                **common,
            )
        )


_OF_HOMES = (_SIZE, _THROUGHPUT, _HOMES_BACKUPS)


def _with_size(change: ResourceChange, size: int) -> dict[str, Any]:
    """The request of the file system as it will be, with this size."""
    return {
        "StorageCapacity": size,
        "SubnetIds": ["one"],
        "OpenZFSConfiguration": change.now("OpenZFSConfiguration") or {},
    }


_LUSTRE = {
    ("LustreConfiguration", name)
    for name in (
        "PerUnitStorageThroughput", "DataCompressionType", "AutomaticBackupRetentionDays", "ThroughputCapacity",
        "DataReadCacheConfiguration",
    )
} | {("LustreConfiguration", "MetadataConfiguration", "Iops")}  # fmt: skip


def _elastic(change: ResourceChange, findings: Findings, common: dict[str, Any]) -> None:
    """Intelligent-Tiering: more throughput or IOPS pauses it, less is refused, another cache begins empty."""
    sides = [{"LustreConfiguration": get("LustreConfiguration") or {}} for get in (change.before, change.now)]
    only = ("only_grows", "read_cache")  # what else is wrong of a file system is not this change's fault
    refused = {refusal.member for refusal in fsx.update_elastic(*sides) if refusal.rule in only}
    moved = "Data of colder tiers may move to the dearest one. "
    for member, words, unit, note, page in (
        (("ThroughputCapacity",), "ThroughputCapacity", " MB/s", moved, "fsx-throughput"),
        (("MetadataConfiguration", "Iops"), "MetadataConfiguration.Iops", "", "", "fsx-metadata"),
    ):
        pointer = ("LustreConfiguration", *member)
        if not change.differs(*pointer):
            continue
        grows = member[0] not in refused
        findings.add(
            Row(
                effect=Effect.INTERRUPTS if grows else Effect.REJECTED,
                code="file-system-throughput" if grows else "file-system-shrunk",
                change=f"{words} {change.before(*pointer)} → {change.now(*pointer)}{unit}",
                consequence="In place: the file system is unavailable for a few minutes while servers are added; "
                f"{_PAUSE}. {note}Requests must be six hours apart."
                if grows
                else "It only grows: the service refuses. Less means another file system and a copy of the data.",
                unavailable=f"{names.MOUNT_PATH}, for a few minutes" if grows else "",
                source=source(page),
                **common,
            )
        )
    if change.differs(*_CACHE):
        takes, stays = "SizeGiB" not in refused, fsx.read_cache_gib(sides[1]["LustreConfiguration"]) > 0
        emptied = "In place. The cache is emptied: reads take longer, and cost, until it is filled again. "
        removed = "In place. The cache goes: each read that memory does not hold takes longer, and costs. "
        findings.add(
            Row(
                effect=Effect.SAFE if takes else Effect.REJECTED,
                code="read-cache",
                change=f"read cache {_cache(sides[0])} → {_cache(sides[1])}",
                consequence=f"{emptied if stays else removed}Another size no sooner than six hours later."
                if takes
                else "A read cache changes by a tenth or more: the service refuses.",
                source=source("fsx-read-cache"),
                **common,
            )
        )


_CACHE = ("LustreConfiguration", "DataReadCacheConfiguration")


def _cache(side: dict[str, Any]) -> str:
    """The size of a read cache in words."""
    lustre = side["LustreConfiguration"]
    mode = (lustre.get("DataReadCacheConfiguration") or {}).get("SizingMode")
    return f"{fsx.read_cache_gib(lustre)} GiB" + (", by the throughput" if str(mode).startswith("PROP") else "")


def _capacity(before: int, after: int, common: dict[str, Any]) -> Row:
    if after < before:
        return Row(
            effect=Effect.REJECTED,
            code="file-system-shrunk",
            change=f"StorageCapacity {before} → {after} GiB",
            consequence="A Lustre file system only grows: the service refuses. Smaller means another file system "
            "and a copy of the data.",
            source=source("fsx-capacity"),
            **common,
        )
    return Row(
        effect=Effect.INTERRUPTS,
        code="file-system-grown",
        change=f"StorageCapacity {before} → {after} GiB",
        consequence=f"In place, data stays. The file system may be unavailable for a few minutes ({_PAUSE}), and "
        "is then slower for hours "
        "to days while it rebalances. Only multiples of 2400 GiB; the next change of size or throughput no "
        "sooner than six hours later.",
        unavailable=f"{names.MOUNT_PATH}, for a few minutes",
        source=source("fsx-capacity"),
        **common,
    )


_LUSTRE_BACKUPS = ("LustreConfiguration", "AutomaticBackupRetentionDays")


def _backups(
    change: ResourceChange, findings: Findings, common: dict[str, Any], *, pointer: tuple[str, str] = _LUSTRE_BACKUPS
) -> None:
    if not change.differs(*pointer):
        return
    before, after = int(change.before(*pointer) or 0), int(change.now(*pointer) or 0)
    findings.add(
        Row(
            effect=Effect.LOSES_DATA if after < before else Effect.SAFE,
            code="backups",
            change=f"AutomaticBackupRetentionDays {before} → {after}",
            consequence=f"Automatic backups older than {after} days are deleted; the files themselves stay."
            if after and after < before
            else "Automatic backups stop and those there are may be deleted; the files themselves stay."
            if not after
            else "In place.",
            source=source("fsx-update"),
            lost=(("file system with fewer backups", 1),) if after < before else (),
            **common,
        )
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
