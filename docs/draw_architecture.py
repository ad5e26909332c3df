"""Draws `docs/architecture.svg` from a synthesized environment: its stacks, what is in them, who needs whom.

    .venv/bin/python docs/draw_architecture.py ASSEMBLY_FOLDER [--out docs/architecture.svg]

Everything in the picture is read from the cloud assembly; nothing of it is drawn by hand.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

LINE, PAD, WIDTH, GAP_X, GAP_Y, TITLE = 18, 12, 312, 56, 26, 30
COLOURS = {
    "Network": "#5b6bbf",
    "Eks": "#b5651d",
    "Storage": "#2e7d4f",
    "Image": "#6d6d6d",
    "Mirror": "#8a8a8a",
    "HyperPod": "#8a2f6b",
    "Platform": "#2a6f97",
    "Ray": "#a33b2a",
}


@dataclass
class Box:
    """One stack."""

    name: str
    lines: list[str]
    needs: list[str]
    depth: int = 0
    x: float = 0
    y: float = 0

    @property
    def height(self) -> float:
        """Of the drawn box."""
        return TITLE + PAD + LINE * len(self.lines)


@dataclass
class Counter:
    """Resources that are shown as a number."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, label: str) -> None:
        """One more of these."""
        self.counts[label] = self.counts.get(label, 0) + 1

    def lines(self) -> list[str]:
        """`3 × label`, or the label alone."""
        return [f"{number} × {label}" if number > 1 else label for label, number in self.counts.items()]


COUNTED = {
    "AWS::EC2::NatGateway": "NAT gateway",
    "AWS::EC2::VPCEndpoint": "VPC endpoint",
    "AWS::EC2::FlowLog": "flow log",
    "AWS::EC2::SecurityGroup": "security group",
    "AWS::KMS::Key": "KMS key",
    "AWS::EKS::AccessEntry": "access entry",
    "AWS::IAM::OIDCProvider": "IAM OIDC provider",
    "AWS::ECR::Repository": "ECR repository",
    "AWS::CodeBuild::Project": "CodeBuild project",
    "AWS::S3::Bucket": "bucket of lifecycle scripts",
    "AWS::SNS::Topic": "SNS topic",
    "AWS::Events::Rule": "EventBridge rule",
    "AWS::CloudWatch::Alarm": "alarm",
    "Custom::VpcRestrictDefaultSG": "function: closes the default security group",
    "Custom::FileSystemsOfClaims": "guard: waits for claims' file systems",
    "Custom::VolumesOfClaims": "guard: waits for the head's volume",
}


def read(assembly: Path) -> list[Box]:
    """The stacks of an assembly, in the order of their creation."""
    boxes = []
    for manifest in sorted(assembly.rglob("manifest.json")):
        artifacts = json.loads(manifest.read_text(encoding="utf-8"))["artifacts"]
        stacks = {key: a for key, a in artifacts.items() if a["type"] == "aws:cloudformation:stack"}
        for artifact in stacks.values():
            template = json.loads(
                (manifest.parent / artifact["properties"]["templateFile"]).read_text(encoding="utf-8")
            )
            needs = [
                _short(stacks[n]["properties"]["stackName"]) for n in artifact.get("dependencies", []) if n in stacks
            ]
            boxes.append(Box(name=_short(artifact["properties"]["stackName"]), lines=_lines(template), needs=needs))
    by_name = {box.name: box for box in boxes}
    for box in boxes:
        box.depth = _depth(box, by_name)
    # drawn next to who needs it, so that arrows do not run behind boxes
    for box in sorted(boxes, key=lambda box: -box.depth):
        users = [other.depth for other in boxes if box.name in _nearest(other, by_name)]
        box.depth = min(users, default=box.depth + 1) - 1
    return sorted(boxes, key=lambda box: (box.depth, box.name))


def _short(stack_name: str) -> str:
    return stack_name.partition("-")[2]


def _depth(box: Box, boxes: dict[str, Box]) -> int:
    return 1 + max((_depth(boxes[name], boxes) for name in box.needs), default=-1)


def _lines(template: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    counted = Counter()
    for logical_id, resource in template["Resources"].items():
        kind, properties = resource["Type"], resource.get("Properties", {})
        if kind in COUNTED:
            counted.add(COUNTED[kind])
        else:
            lines += _described(kind, properties, logical_id)
    return [*dict.fromkeys(lines), *counted.lines()]


def _described(kind: str, properties: dict[str, Any], logical_id: str) -> list[str]:
    """What the picture says of a resource that is not merely counted."""
    describe = DESCRIBED.get(kind)
    return describe(properties, logical_id) if describe else []


def _subnet(properties: dict[str, Any], _: str) -> list[str]:
    tags = {tag["Key"]: tag["Value"] for tag in properties["Tags"]}
    name = tags.get("aws-cdk:subnet-name") or tags["Name"].rpartition("/")[2].rstrip("0123456789")
    return [f"subnet {name} {properties['CidrBlock']} {properties['AvailabilityZoneId']}"]


def _eks(properties: dict[str, Any], _: str) -> list[str]:
    access = "public and private" if properties["ResourcesVpcConfig"]["EndpointPublicAccess"] else "private"
    return [f"EKS {properties['Version']}, endpoint {access}"]


def _hyperpod(properties: dict[str, Any], _: str) -> list[str]:
    by = " on Slurm" if "Slurm" in properties["Orchestrator"] else ""
    head = f"HyperPod{by}, node recovery {properties['NodeRecovery']}"
    return [head, *(_group(group) for group in properties["InstanceGroups"])]


def _manifest(properties: dict[str, Any], logical_id: str) -> list[str]:
    manifest = properties["Manifest"]
    text = manifest if isinstance(manifest, str) else "".join(p for p in manifest["Fn::Join"][1] if isinstance(p, str))
    kinds = dict.fromkeys(re.findall(r'"kind":"([A-Z][A-Za-z]+)","metadata"', text))
    return [", ".join(kinds) or logical_id]


DESCRIBED: dict[str, Callable[[dict[str, Any], str], list[str]]] = {
    "AWS::EC2::VPC": lambda p, _: [f"VPC {p['CidrBlock']}"],
    "AWS::EC2::Subnet": _subnet,
    "AWS::EKS::Cluster": _eks,
    "AWS::EKS::Addon": lambda p, _: [f"add-on {p['AddonName']}"],
    "AWS::SageMaker::Cluster": _hyperpod,
    "AWS::FSx::FileSystem": lambda p, _: [f"FSx for Lustre, {p['StorageCapacity']} GiB"],
    "Custom::AWSCDK-EKS-HelmChart": lambda p, _: [f"Helm {p['Release']}"],
    "Custom::AWSCDK-EKS-KubernetesResource": _manifest,
}


def _group(group: dict[str, Any]) -> str:
    slurm = group.get("SlurmConfig", {})
    part = "".join(f", partition {name}" for name in slurm.get("PartitionNames", []))
    checks = ", deep checks" if group.get("OnStartDeepHealthChecks") else ""
    return f"{group['InstanceCount']} × {group['InstanceType']} ({group['InstanceGroupName']}{part}{checks})"


def draw(boxes: list[Box]) -> str:
    """The SVG; columns are waves of the deployment."""
    columns: dict[int, list[Box]] = {}
    for box in boxes:
        columns.setdefault(box.depth, []).append(box)
    for depth, column in columns.items():
        y = PAD + 4.0
        for box in column:
            box.x, box.y = PAD + depth * (WIDTH + GAP_X), y
            y += box.height + GAP_Y
    width = max(box.x for box in boxes) + WIDTH + PAD
    height = max(box.y + box.height for box in boxes) + PAD
    by_name = {box.name: box for box in boxes}
    # an arrow only to the nearest that is needed: who needs the EKS cluster needs the network anyway
    arrows = [_arrow(by_name[need], box) for box in boxes for need in _nearest(box, by_name)]
    parts = [_head(width, height), *arrows, *(_box(box) for box in boxes), "</svg>\n"]
    return "\n".join(parts)


def _nearest(box: Box, boxes: dict[str, Box]) -> list[str]:
    implied = {deeper for need in box.needs for deeper in _all_needs(boxes[need], boxes)}
    return [need for need in box.needs if need not in implied]


def _all_needs(box: Box, boxes: dict[str, Box]) -> set[str]:
    return set(box.needs).union(*(_all_needs(boxes[need], boxes) for need in box.needs))


def _head(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12.5">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n'
        '<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        '<path d="M0,0 L9,4 L0,8 z" fill="#666"/></marker></defs>'
    )


def _box(box: Box) -> str:
    colour = COLOURS.get(box.name, "#444444")
    rows = "\n".join(
        f'<text x="{box.x + PAD}" y="{box.y + TITLE + LINE * (index + 0.85):.1f}" fill="#222">{escape(line)}</text>'
        for index, line in enumerate(box.lines)
    )
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{WIDTH}" height="{box.height}" rx="6" fill="#fbfbfb" '
        f'stroke="{colour}"/>\n'
        f'<rect x="{box.x}" y="{box.y}" width="{WIDTH}" height="{TITLE - 6}" rx="6" fill="{colour}"/>\n'
        f'<text x="{box.x + PAD}" y="{box.y + 17}" fill="#fff" font-weight="bold">{escape(box.name)}</text>\n{rows}'
    )


def _arrow(source: Box, target: Box) -> str:
    x1, y1 = source.x + WIDTH, source.y + min(source.height / 2, 60)
    x2, y2 = target.x, target.y + min(target.height / 2, 60)
    middle = x2 - GAP_X / 2
    line = f"M{x1},{y1:.0f} L{middle},{y1:.0f} L{middle},{y2:.0f} L{x2 - 1},{y2:.0f}"
    return f'<path d="{line}" fill="none" stroke="#666" marker-end="url(#tip)"/>'


def main() -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assembly", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "architecture.svg")
    options = parser.parse_args()
    options.out.write_text(draw(read(options.assembly)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
