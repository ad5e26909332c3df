"""What Slurm's commands print, taken apart. No process in here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

REPLACE = "Action:Replace"
_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=(.*?)(?=\s+[A-Za-z][\w:/]*=|\s*$)")
_LOST = frozenset({"DOWN", "FAIL", "FAILING", "NOT_RESPONDING", "ERROR"})
_FLAGS = {"*": "NOT_RESPONDING"}


def fields(text: str) -> dict[str, str]:
    """`scontrol show …` of one thing: name to value. The node's `Reason` keeps its spaces."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        for name, value in _PAIR.findall(line):
            values.setdefault(name, value.strip())
    return values


def node_list(job: str) -> str:
    """The nodes a job has now, from `scontrol show job`; empty where it has none.

    `ReqNodeList` and `ExcNodeList` end in the same letters: what was asked for, and what was ruled out.
    """
    listed = fields(job).get("NodeList", "")
    return "" if listed in {"(null)", "None"} else listed


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node as the controller sees it.

    Args:
        name: Its name.
        states: Words of its state, without signs: `DOWN*+DRAIN` has DOWN, DRAIN and NOT_RESPONDING.
        reason: Why; empty where there is none.
        address: `NodeAddr`.
    """

    name: str
    states: frozenset[str]
    reason: str = ""
    address: str = ""

    @property
    def lost(self) -> bool:
        """Whether work on it cannot continue."""
        return bool(self.states & _LOST)

    @property
    def idle(self) -> bool:
        """Whether a job can be placed on it."""
        return "IDLE" in self.states and not self.states & (_LOST | {"DRAIN"})

    @property
    def to_be_replaced(self) -> bool:
        """Whether HyperPod was asked for a replacement."""
        return self.reason.startswith(REPLACE)


def node(text: str) -> Node:
    """A node from `scontrol show node NAME`."""
    values = fields(text)
    raw = values.get("State", "")
    states = {word for word in re.split(r"[+*~#!%$@^-]", raw) if word}
    states |= {meaning for sign, meaning in _FLAGS.items() if sign in raw}
    return Node(
        name=values.get("NodeName", ""), states=frozenset(states), reason=values.get("Reason", ""),
        address=values.get("NodeAddr", ""),
    )  # fmt: skip


def nodes(text: str) -> list[Node]:
    """All nodes from `scontrol show nodes`."""
    return [node(part) for part in re.split(r"\n\s*\n", text) if "NodeName=" in part]


def lost(listed: Sequence[Node], *, among: Sequence[str]) -> list[str]:
    """Which nodes of a job are lost, in its order."""
    gone = {member.name for member in listed if member.lost}
    return [name for name in among if name in gone]
