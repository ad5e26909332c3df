"""`make manifests`: what a deploy applies, as files for people and GitOps, in apply order."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from charts import executable
from charts.errors import ChartError
from core.plan import Plan
from k8s.bindings import Bindings
from k8s.helm import PROJECT, HelmRelease, hyperpod_dependencies, kuberay_operator
from k8s.manifest import Manifest
from k8s.manifests import namespace_manifests, platform_manifests, ray_manifests, system_manifests

HEADER = "# Made by `hyperpod-ray manifests {name}`; do not edit. Values in <…> are known only to the stack.\n"


def write(plan: Plan, bindings: Bindings, *, out: Path) -> list[Path]:
    """Write the environment's manifests and Helm values into `out`, which is emptied first.

    Files: one per manifest and per release, numbered in apply order, and a README.md with the commands. A release is
    also rendered by `helm template` where its chart has been fetched. The same input gives the same bytes.
    """
    _empty(out)
    before, after = hyperpod_dependencies(plan), kuberay_operator(plan)
    steps: list[HelmRelease | Manifest] = [
        before,
        *namespace_manifests(plan),
        *system_manifests(plan),
        *platform_manifests(plan, bindings),
        after,
        *ray_manifests(plan, bindings),
    ]
    written: list[Path] = []
    commands: list[str] = []
    for number, step in enumerate(steps, 1):
        if isinstance(step, HelmRelease):
            stem = f"{number:02d}-{step.name}"
            written += _release(step, out / stem, header=HEADER.format(name=plan.name))
            commands += [f"# {step.source}", *helm_command(step, values=f"{stem}.values.yaml")]
        else:
            stem = f"{number:02d}-{_kebab(step.name)}"
            path = out / f"{stem}.yaml"
            path.write_text(HEADER.format(name=plan.name) + dump(step.objects), encoding="utf-8")
            written.append(path)
            commands.append(f"kubectl apply -f {stem}.yaml")
    readme = out / "README.md"
    readme.write_text(_readme(plan, commands), encoding="utf-8")
    return [*written, readme]


def helm_command(release: HelmRelease, *, values: str) -> list[str]:
    """The command that installs the release from the packaged chart."""
    lines = [f"helm upgrade --install {release.name} {_shown(release.locked.path)} \\"]
    lines.append(f"  --namespace {release.namespace} --values {values} --timeout {release.timeout_minutes}m")
    if release.create_namespace:
        lines[-1] += " --create-namespace"
    if release.wait:
        lines[-1] += " --wait"
    return lines


def _shown(path: Path) -> str:
    return str(path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path)


def dump(objects: list[dict[str, Any]]) -> str:
    """YAML documents: no aliases, no reordering, blocks for text of several lines."""
    return "".join(
        f"---\n{yaml.dump(item, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)}" for item in objects
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _text)


def _release(release: HelmRelease, stem: Path, *, header: str) -> list[Path]:
    values = stem.with_name(f"{stem.name}.values.yaml")
    text = yaml.dump(release.values, Dumper=_Dumper, sort_keys=False, width=120)
    values.write_text(
        header + f"# Chart {release.chart} {release.version} from {release.source}\n" + text, encoding="utf-8"
    )
    rendered = stem.with_name(f"{stem.name}.rendered.yaml")
    try:
        objects = executable.template(release.archive, release=release.name, namespace=release.namespace, values=values)
        rendered.write_text(header + dump(objects), encoding="utf-8")
    except ChartError as error:
        # the values are the contract; the rendering is a help for reading them
        rendered.write_text(f"{header}# Not rendered: {error}\n", encoding="utf-8")
    return [values, rendered]


def _readme(plan: Plan, commands: list[str]) -> str:
    lines = [
        f"# Kubernetes manifests of `{plan.name}`",
        "",
        "The objects that `cdk deploy` applies, in its order. The HyperPod cluster and its nodes come after step 1.",
        "Replace what stands in `<…>` by the stack's outputs.",
        "",
        "```sh",
        *commands,
        "```",
        "",
    ]
    return "\n".join(lines)


def _empty(out: Path) -> None:
    """Only a folder that this module made (or nothing) is emptied."""
    if out.exists() and any(out.iterdir()):
        ours = re.compile(r"^(\d\d-.*\.yaml|README\.md)$")
        foreign = [path.name for path in out.iterdir() if not ours.match(path.name)]
        if foreign:
            raise ChartError(
                f"{out}: contains other files ({foreign[0]})", expected="an empty folder", fix="choose one with --out"
            )
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
