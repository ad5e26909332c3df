"""Rules of HyperPod's hung job detection as the stand-in agent reads and applies them. Decisions only: no clock.

Written from the service's published fields, and not from this project's settings: what it refuses, those must not send.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ray-hung-job-detection.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import re2

LONGEST_PATTERN = 256
FIELDS: dict[str, tuple[type, ...]] = {
    "name": (str,), "type": (str,), "enabled": (bool,), "log_pattern": (str,), "timeout_minutes": (int, float),
    "start_timeout_minutes": (int, float), "stop_pattern": (str,), "fault_on_match": (bool,),
    "metric_evaluation_data_points": (int,),
}  # fmt: skip
REQUIRED = ("name", "type", "log_pattern")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a worker has configured."""

    job: str
    worker: str
    enabled: bool
    rules: tuple[Mapping[str, Any], ...]
    action: str


def request_of(body: object) -> Request:
    """A request; ValueError names what the service's schema has against it."""
    if not isinstance(body, dict) or set(body) != {"job_id", "worker_id", "rules_content"}:
        raise ValueError("the body has the members job_id, worker_id and rules_content")
    job, worker, content = body["job_id"], body["worker_id"], body["rules_content"]
    if not all(isinstance(identifier, str) and identifier for identifier in (job, worker)):
        raise ValueError("job_id and worker_id are text")
    if not isinstance(content, dict) or set(content) - {"enabled", "rules", "action_policy"}:
        raise ValueError("rules_content has the members enabled, rules and action_policy")
    if not isinstance(content.get("enabled"), bool):
        raise ValueError("rules_content.enabled is true or false")
    rules = content.get("rules", [])
    if not isinstance(rules, list):
        raise ValueError("rules_content.rules is a list")
    action = (content.get("action_policy") or {}).get("action", "notify")
    if action not in {"notify", "cancel"}:
        raise ValueError("rules_content.action_policy.action is notify or cancel")
    for index, rule in enumerate(rules):
        _check(rule, f"rules[{index}]")
    return Request(job=job, worker=worker, enabled=content["enabled"], rules=tuple(rules), action=action)


def _check(rule: object, where: str) -> None:
    if not isinstance(rule, dict):
        raise ValueError(f"{where} is an object")
    if unknown := set(rule) - set(FIELDS):
        raise ValueError(f"{where}: unknown {', '.join(sorted(unknown))}")
    if missing := [name for name in REQUIRED if name not in rule]:
        raise ValueError(f"{where}: no {', '.join(missing)}")
    for name, value in rule.items():
        if not isinstance(value, FIELDS[name]) or (isinstance(value, bool) and bool not in FIELDS[name]):
            raise ValueError(f"{where}.{name} has the wrong type")
    if rule["type"] != "log_pattern":
        raise ValueError(f"{where}.type is log_pattern")
    for name in ("log_pattern", "stop_pattern"):
        pattern = rule.get(name)
        if pattern is None:
            continue
        if len(pattern) > LONGEST_PATTERN:
            raise ValueError(f"{where}.{name} is longer than {LONGEST_PATTERN} characters")
        try:
            _compiled(pattern)
        except re2.error as error:
            why = error.args[0]
            pattern_text = why.decode(errors="replace") if isinstance(why, bytes) else why
            raise ValueError(f"{where}.{name} is not RE2: {pattern_text}") from None


def _compiled(pattern: str) -> Any:
    quiet = re2.Options()
    quiet.log_errors = False
    return re2.compile(pattern, quiet)


@dataclass
class Watched:
    """One rule on one worker's output.

    Args:
        rule: In the service's schema.
        begun: When the job began, on the caller's clock.
    """

    rule: Mapping[str, Any]
    begun: float
    matched: float | None = None
    over: bool = False
    failed: int = field(default=0, init=False)
    fault: str = field(default="", init=False)

    def line(self, text: str, now: float) -> None:
        """A line of output."""
        stop = self.rule.get("stop_pattern")
        if stop and _compiled(stop).search(text):
            self.over = True
        if self.over or not _compiled(self.rule["log_pattern"]).search(text):
            return
        self.matched = now
        if self.rule.get("fault_on_match"):
            self.fault = f"rule {self.rule['name']}: the output says {text.strip()[:120]!r}"

    def verdict(self, now: float) -> str:
        """The evidence of a hang at this evaluation; empty where there is none."""
        if self.over or not self.rule.get("enabled", False):
            return ""
        evidence = self.fault or self._silence(now)
        self.failed = self.failed + 1 if evidence else 0
        return evidence if self.failed >= self.rule.get("metric_evaluation_data_points", 1) else ""

    def _silence(self, now: float) -> str:
        if self.rule.get("fault_on_match"):
            return ""
        name = "timeout_minutes" if self.matched is not None else "start_timeout_minutes"
        limit, since = self.rule.get(name), self.begun if self.matched is None else self.matched
        if limit is None or now - since <= limit * 60:
            return ""
        return f"rule {self.rule['name']}: no line for {now - since:.0f} s, {name} is {limit:g}"
