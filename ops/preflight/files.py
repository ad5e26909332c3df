"""Checks of what lies on this machine: the environment file, the charts, the cdk CLI."""

from __future__ import annotations

import json
from pathlib import Path

from core import needs
from ops.clients import Target
from ops.preflight.check import Outcome, failed, ok, warning

PROJECT = Path(__file__).resolve().parents[2]


def environment_file(target: Target) -> list[Outcome]:
    """The file has been read without errors by now; what remains are its warnings."""
    warnings = [
        warning(f"line {item.line}, {item.path}: {item.what}", expected=item.expected, fix=item.fix)
        for item in target.file.warnings
    ]
    groups = target.plan.settings.hyperpod.instance_groups
    return warnings or [ok(f"{sum(group.count for group in groups)} nodes in {len(groups)} groups")]


def charts(target: Target) -> list[Outcome]:
    """Every Helm chart has a recorded digest and is there."""
    import yaml

    name = target.plan.settings.helm.lock_file
    lock = PROJECT / name
    if not lock.exists():
        return [failed(f"{name} does not exist", expected="a lock file of charts", fix="correct helm.lock_file")]
    fetch = f"hyperpod-ray charts fetch --lock {name}, then commit {name}"
    content = yaml.safe_load(lock.read_text(encoding="utf-8")) or {}
    found: list[Outcome] = []
    for chart in (content.get("charts") or {}).values():
        label = f"{chart['chart']} {chart['version']}"
        own = "folder" in (chart.get("source") or {})
        open_ = [part["chart"] for part in [chart, *(chart.get("sub_charts") or [])] if not part.get("sha256")]
        archive = lock.parent / content.get("folder", "charts") / f"{chart['chart']}-{chart['version']}.tgz"
        if not own and open_:
            what = f"{label}: no digest recorded for {', '.join(open_)}"
            found.append(failed(what, expected="a digest for each chart", fix=fetch))
        elif not archive.exists():
            missing = f"{label} was not fetched"
            found.append(failed(missing, expected="its archive", fix=f"hyperpod-ray charts fetch --lock {name}"))
        else:
            found.append(ok(f"{label}, {'of this project' if own else 'locked'}"))
    return found


def image_digests(target: Target) -> list[Outcome]:
    """The image's base and what the mirror copies have recorded digests; their stacks are refused otherwise."""
    missing = needs.without_digest(target.plan)
    if missing:
        records = " and ".join(sorted(set(missing.values())))
        what = f"no digest recorded for {', '.join(missing)}"
        return [failed(what, expected="a digest for each image", fix=f"make pin, then commit {records}")]
    return [ok("every image that is built or copied is known by digest")]


def cdk_cli(target: Target) -> list[Outcome]:
    """The cdk CLI that package.json pins is installed."""
    del target
    pinned = json.loads((PROJECT / "package.json").read_text(encoding="utf-8"))
    wanted = {**pinned.get("dependencies", {}), **pinned.get("devDependencies", {})}.get("aws-cdk", "")
    installed = PROJECT / "node_modules" / "aws-cdk" / "package.json"
    if not installed.exists():
        return [failed("the cdk CLI is not installed", expected=f"version {wanted}", fix="make setup")]
    version = json.loads(installed.read_text(encoding="utf-8"))["version"]
    if version != wanted:
        return [failed(f"cdk CLI {version} is installed", expected=f"{wanted}, as package.json has it", fix="npm ci")]
    return [ok(f"CLI {version}")]
