"""PyTorch's flight recorder: which collectives each rank has begun, kept when ranks hang or a collective breaks.

PyTorch writes every collective of NCCL and gloo into a ring in memory. `keep` writes the newest of this process into a
file, without waiting for another rank. `differs` says which rank has not begun what the others wait in: where all have
begun the same, the network or a device is slow, and not a script.
https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html

    python -m hyperpod_ray_training.flight /fsx/runs/a/flight
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperpod_ray_training.folder import RunFolder

SIZE_VARIABLE = "TORCH_FR_BUFFER_SIZE"
OLD_VARIABLE = "TORCH_NCCL_TRACE_BUFFER_SIZE"
SIZE = 2000
FOLDER = "flight"
KEPT = 64
"""Newest collectives of a group in a file."""
ATTEMPTS = 3
"""Attempts of a run whose files stay."""
TOGETHER_S = 600.0
"""Files of one hang are written within so long; an older one of the same name is of another submission."""
NAMED = 8
Newest = dict[str, tuple[int, str]]
"""Of each group by name: number and name of the newest collective that a rank has begun."""


def record(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let PyTorch record, before the first process group; what the user has set stays."""
    if OLD_VARIABLE not in environ:
        environ.setdefault(SIZE_VARIABLE, str(SIZE))


def entries() -> list[dict[str, Any]]:
    """What this process has recorded, oldest first; empty where PyTorch records nothing."""
    from torch._C import _distributed_c10d as c10d

    dump = getattr(c10d, "_dump_fr_trace_json", None) or getattr(c10d, "_dump_nccl_trace_json", None)
    try:
        content = json.loads(dump()) if dump else {}
    except (RuntimeError, ValueError):
        return []
    recorded = content.get("entries") if isinstance(content, dict) else None
    return [collective for collective in recorded or [] if isinstance(collective, dict)]


def newest(recorded: Sequence[Mapping[str, Any]]) -> Newest:
    """The newest collective of each group. Sends between two ranks count apart, and name nobody."""
    by_group: Newest = {}
    for collective in recorded:
        if collective.get("is_p2p"):
            continue
        group, number = _group(collective), int(collective.get("collective_seq_id") or 0)
        if number >= by_group.get(group, (0, ""))[0]:
            by_group[group] = number, _name(collective)
    return by_group


def keep(folder: RunFolder, *, attempt: str, rank: int) -> Newest:
    """Write the newest collectives of this process into the run's folder; what they are of each group.

    Object storage gets no file.

    Args:
        folder: The run's.
        attempt: What all ranks of this moment share, such as `gen-3`.
        rank: Of this process.
    """
    recorded = entries()
    by_group: dict[str, list[dict[str, Any]]] = {}
    for collective in recorded:
        by_group.setdefault(_group(collective), []).append(
            {
                "number": collective.get("collective_seq_id"), "name": _name(collective),
                "state": collective.get("state"),
                "sizes": collective.get("input_sizes"), "created_ns": collective.get("time_created_ns"),
                "started_ns": collective.get("time_discovered_started_ns"),
                "completed_ns": collective.get("time_discovered_completed_ns"), "p2p": bool(collective.get("is_p2p")),
            }
        )  # fmt: skip
    if recorded and folder.local:
        path = Path(folder.at(FOLDER)) / f"{attempt}-rank-{rank}.json"
        path.parent.mkdir(exist_ok=True)
        if rank == 0:
            _prune(path.parent, attempt)
        groups = {group: listed[-KEPT:] for group, listed in by_group.items()}
        path.write_text(json.dumps({"newest": newest(recorded), "groups": groups}))
    return newest(recorded)


def _prune(folder: Path, attempt: str) -> None:
    """Remove files of all but the newest attempts; this one's may be there already."""
    newest_first = sorted(folder.glob("*-rank-*.json"), key=lambda path: -path.stat().st_mtime)
    attempts = dict.fromkeys([attempt, *(path.stem.rpartition("-rank-")[0] for path in newest_first)])
    for path in newest_first:
        if path.stem.rpartition("-rank-")[0] not in list(attempts)[:ATTEMPTS]:
            path.unlink(missing_ok=True)


def differs(ranks: Mapping[int, Mapping[str, Sequence[Any]]]) -> str:
    """Which ranks have not begun what others have, in words; empty where that is not so, or one rank alone tells."""
    for group in sorted({group for of_rank in ranks.values() for group in of_rank}):
        at = {rank: (int(of[group][0]), str(of[group][1])) for rank, of in sorted(ranks.items()) if group in of}
        highest = max((number for number, _ in at.values()), default=0)
        ahead = [rank for rank, (number, _) in at.items() if number == highest]
        behind = {rank: newest_of for rank, newest_of in at.items() if newest_of[0] < highest}
        if behind:
            name = at[ahead[0]][1]
            late = ", ".join(
                f"rank {rank} (last {newest_of[1]} {newest_of[0]})" for rank, newest_of in list(behind.items())[:NAMED]
            )
            suffix = f" and {len(behind) - NAMED} more" if len(behind) > NAMED else ""
            return f"{len(ahead)} of {len(at)} ranks have begun {name} {highest} of group {group}, not {late}{suffix}"
        names = Counter(name for _, name in at.values())
        if len(names) > 1:
            by_name = {name: [str(rank) for rank, newest_of in at.items() if newest_of[1] == name] for name in names}
            ways = "; ".join(f"{name}: rank {', '.join(listed)}" for name, listed in by_name.items())
            return f"ranks are in different collectives, number {highest} of group {group}: {ways}"
    return ""


def read(folder: str | Path) -> dict[int, dict[str, Any]]:
    """Of the newest hang in a folder, what each rank had begun. Files of other attempts do not count."""
    files = sorted(Path(folder).glob("*-rank-*.json"), key=lambda path: path.stat().st_mtime)
    if not files:
        return {}
    attempt = files[-1].stem.rpartition("-rank-")[0]
    ranks: dict[int, dict[str, Any]] = {}
    for path in files:
        stem, _, rank = path.stem.rpartition("-rank-")
        recent = path.stat().st_mtime > files[-1].stat().st_mtime - TOGETHER_S
        if stem == attempt and rank.isdigit() and recent:
            try:
                ranks[int(rank)] = dict(json.loads(path.read_text())["newest"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
    return ranks


def _group(collective: Mapping[str, Any]) -> str:
    group = collective.get("process_group")
    return " ".join(str(part) for part in group) if isinstance(group, list) else str(group or "")


def _name(collective: Mapping[str, Any]) -> str:
    return str(collective.get("profiling_name") or "").rpartition(":")[2]


def main(words: Sequence[str]) -> int:
    """Say which rank was behind."""
    if len(words) != 1:
        sys.stderr.write("python -m hyperpod_ray_training.flight RUN_FOLDER/flight\n")
        return 2
    ranks = read(words[0])
    if not ranks:
        sys.stderr.write(
            f"flight records: none in {words[0]}. Expected *-rank-N.json, which ranks write when a collective breaks. "
            "Fix: give the folder `flight` of a run's folder\n"
        )
        return 3
    sys.stdout.write((differs(ranks) or f"{len(ranks)} ranks have begun the same collectives") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
