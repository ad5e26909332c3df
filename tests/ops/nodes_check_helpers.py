"""What tests of `node_check`, `nodes_check` share."""

from __future__ import annotations

import copy
import re
from typing import Any

from hyperpod_ray.ops.acceptance import node_probe

Json = dict[str, Any]
GPU = {"uncorrected": 0, "corrected": 0, "uncorrected_ever": 0, "slowed": 0, "temperature": 60}


def cluster_of(count: int, *, gpus: int = 8, pair: float = 45.0, cuda: bool = True, **figures: float) -> Json:
    """What the probes of equal nodes print: every pair of every round, each GPU with its own line."""
    rates = {"tflops": 640.0, "memory": 2400.0, "write": 2.0, "read": 2.5, "all_reduce": 370.0, **figures}
    answers = []
    for node in range(count):
        lines: list[Json] = []
        for local in range(gpus):
            place = {"node": node, "local": local}
            lines += [
                {**place, "phase": "compute", "tflops": rates["tflops"], "least": 1.0, "wrong": 0, "products": 120},
                {**place, "phase": "memory", "tested_gib": 60.0, "wrong": 0, "gb_s": rates["memory"]},
            ]
            for number, table in enumerate(node_probe.rounds(count)):
                for one, other in table:
                    if node in (one, other):
                        partner = one + other - node
                        lines.append({**place, "phase": "pair", "round": number, "partner": partner, "gb_s": pair})
            if count * gpus > 1:
                network = "AWS Libfabric" if cuda else "gloo"
                lines.append({**place, "phase": "all-reduce", "gb_s": rates["all_reduce"], "transport": network})
            lines.append({**place, "phase": "done"})
        lines.append(
            {"node": node, "local": 0, "phase": "storage", "write_gb_s": rates["write"], "read_gb_s": rates["read"],
             "wrong": 0, "error": ""}
        )  # fmt: skip
        counters = [{"index": index, **GPU} for index in range(gpus)]
        answers.append(
            {"node": node, "host": f"pod-{node}", "lines": lines, "before": counters, "after": copy.deepcopy(counters)}
        )
    return {"answers": answers, "busy": [], "cuda": cuda, "ranks": gpus}


def slow_pairs(answer: Json, node: int, rate: float) -> Json:
    """A node whose every exchange is slow, for it and for its partners."""
    for part in answer["answers"]:
        for line in part["lines"]:
            if line["phase"] == "pair" and node in (part["node"], line["partner"]):
                line["gb_s"] = rate
    return answer


def text_of(svg: str) -> str:
    """The words of a picture, without its elements."""
    return re.sub(r"<[^>]*>", "", svg)
