"""The journal of `nodes check`: one line of JSON for each test of an environment's nodes, oldest first.

The command writes it beside the environment files, so that a repository keeps it; plans and status read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.planner import PlanError, reading

SUBFOLDER = "checks"
FIX = "run hyperpod-ray nodes check again, or remove the line"
MOST_BYTES = 20_000_000


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One test."""

    at: datetime
    instance_type: str
    transport: str
    """Network that NCCL named; `gloo` on CPU, empty where nothing was measured between nodes."""
    all_reduce_gb_s: float | None = None
    """Bytes a second that pass each process, as nccl-tests count them: what collectives reach between the nodes."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """`good`, `faulty` or `busy` by node."""
    findings: tuple[str, ...] = ()
    write_gb_s: float | None = None
    """Of all nodes together, onto the shared file system."""

    @property
    def measured(self) -> int:
        """Nodes that were measured."""
        return sum(state != "busy" for state in self.nodes.values())

    @property
    def faulty(self) -> list[str]:
        """Nodes with a finding."""
        return [name for name, state in self.nodes.items() if state == "faulty"]

    @property
    def on_gpus(self) -> bool:
        """Whether the figures are of GPUs, and not of a rehearsal on CPU."""
        return self.transport not in ("", "gloo")

    @property
    def sentence(self) -> str:
        """What it says, in one sentence."""
        bad = self.faulty
        words = f"{self.measured} node{'' if self.measured == 1 else 's'} on {self.at:%Y-%m-%d}, {len(bad)} faulty" + (
            f" ({', '.join(bad)})" if bad else ""
        )
        if self.all_reduce_gb_s is not None:
            words += f"; all-reduce {self.all_reduce_gb_s:.3g} GB/s over {self.transport}"
        return words


def file_of(environment: str, folder: Path | None = None) -> Path:
    """Where the journal of an environment is."""
    return (folder or FOLDER) / SUBFOLDER / f"{environment}.jsonl"


def write(checked: Checked, environment: str, folder: Path | None = None) -> Path:
    """Add a test to the journal."""
    path = file_of(environment, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({**asdict(checked), "at": checked.at.astimezone(UTC).isoformat(timespec="seconds")})
    with path.open("a", encoding="utf-8") as stream:
        stream.write(f"{line}\n")
    return path


def newest(environment: str, folder: Path | None = None) -> Checked | None:
    """The last test; None where there was none.

    Raises:
        PlanError: The journal's last line is not one of `write`.
    """
    path = file_of(environment, folder)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise PlanError(f"{path}: {path.stat().st_size:,} bytes", expected=f"at most {MOST_BYTES:,}", fix=FIX)
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: {error}"[:200], expected="the journal of nodes check", fix=FIX) from None
    return _read(path, lines[-1]) if lines else None


def _read(path: Path, line: str) -> Checked:
    try:
        raw: Any = json.loads(line)
        at = datetime.fromisoformat(raw["at"])
        nodes = {str(name): str(state) for name, state in dict(raw["nodes"]).items()}
        figures = {}
        for name in ("all_reduce_gb_s", "write_gb_s"):
            if raw.get(name) is not None:
                figures[name] = reading.number(raw[name], name=f"{path}: {name}", low=1e-6, high=1e6, fix=FIX)
        return Checked(
            at=at if at.tzinfo else at.replace(tzinfo=UTC), instance_type=str(raw["instance_type"]),
            transport=str(raw["transport"]), nodes=nodes, findings=tuple(map(str, raw["findings"])), **figures,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PlanError(
            f"{path}: its last line is not of a test: {type(error).__name__} {error}"[:200],
            expected="the journal of nodes check",
            fix=FIX,
        ) from None
