"""Rules about hung job detection: patterns that the service cannot read, rules that can never fire or always do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hyperpod_ray.core import image_sets
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.model import BuiltImage, HangRule, HungJobDetection
from hyperpod_ray.core.plan import Plan

SECTION = ("ray", "hung_job_detection")
SHORTEST_MINUTES = 1
"""The training library writes a line each ten seconds; below this a slow step or a save counts as hung."""


def fault_of(pattern: str) -> str:
    """What is wrong with a pattern, by RE2 itself; empty where nothing is."""
    import re2  # noqa: PLC0415 - most environments have no rules, and every command loads one

    quiet = re2.Options()
    quiet.log_errors = False
    try:
        matches_nothing = re2.compile(pattern, quiet).search("")
    except re2.error as refused:
        why = refused.args[0]
        return f"is no pattern of RE2: {why.decode(errors='replace') if isinstance(why, bytes) else why}"
    return "matches every line, even an empty one" if matches_nothing else ""


def _detection(plan: Plan) -> HungJobDetection | None:
    return plan.settings.ray.hung_job_detection


def _rules(plan: Plan) -> list[tuple[int, HangRule]]:
    detection = _detection(plan)
    return list(enumerate(detection.rules)) if detection is not None else []


@rule("ray")
def hang_patterns_are_re2(plan: Plan) -> Iterator[Finding]:
    """The agent reads patterns as RE2 does: no look-around, no backreference, no repetition above 1000.

    https://github.com/google/re2/wiki/Syntax
    """
    for index, hang_rule in _rules(plan):
        for name, pattern in (("log_pattern", hang_rule.log_pattern), ("stop_pattern", hang_rule.stop_pattern)):
            if pattern is not None and (why := fault_of(pattern)):
                yield error(
                    *SECTION,
                    "rules",
                    index,
                    name,
                    what=f"'{pattern[:60]}' {why[:140]}",
                    expected="RE2 syntax, without look-around and backreferences, that matches some lines",
                    fix=r"rewrite the pattern, such as step \d+",
                )


@rule("ray")
def hang_rules_can_fire(plan: Plan) -> Iterator[Finding]:
    """A rule fires by `timeout_minutes`, `start_timeout_minutes` or `fault_on_match`; without them, never."""
    for index, hang_rule in _rules(plan):
        path = (*SECTION, "rules", index)
        limits = [name for name in ("timeout_minutes", "start_timeout_minutes") if getattr(hang_rule, name) is not None]
        if not hang_rule.fault_on_match and not limits:
            yield error(
                *path,
                what=f"rule '{hang_rule.name}' has no time limit, and its pattern is no fault: it never fires",
                expected="timeout_minutes, start_timeout_minutes or fault_on_match: true",
                fix="set timeout_minutes",
            )
        elif hang_rule.fault_on_match and limits:
            yield error(
                *path,
                limits[0],
                what=f"rule '{hang_rule.name}' takes its pattern for a fault and for progress at once",
                expected="a time limit or fault_on_match: true",
                fix="make two rules of it",
            )
        elif hang_rule.fault_on_match and hang_rule.stop_pattern == hang_rule.log_pattern:
            yield error(
                *path,
                "stop_pattern",
                what=f"rule '{hang_rule.name}' ends by the line by which it fires",
                expected="another pattern than log_pattern",
                fix="remove stop_pattern",
            )
        for name in limits:
            if getattr(hang_rule, name) < SHORTEST_MINUTES:
                yield warning(
                    *path,
                    name,
                    what=f"{getattr(hang_rule, name):g} minutes are shorter than many saves and restores",
                    expected=f"{SHORTEST_MINUTES} or more, and longer than the longest pause of the job",
                    fix=f"raise {name}",
                )


@rule("ray")
def hang_rules_are_on(plan: Plan) -> Iterator[Finding]:
    """Rules replace the default detection, and the service's default of `enabled` is false."""
    detection = _detection(plan)
    if detection is None:
        return
    for index, hang_rule in enumerate(detection.rules):
        if "enabled" not in hang_rule.model_fields_set:
            yield warning(
                *SECTION,
                "rules",
                index,
                what=f"rule '{hang_rule.name}' is off: the service's default of enabled is false",
                expected="enabled: true, or enabled: false",
                fix="add enabled: true",
            )
    for name, times in Counter(hang_rule.name for hang_rule in detection.rules).items():
        if times > 1:
            latest = max(index for index, hang_rule in enumerate(detection.rules) if hang_rule.name == name)
            yield error(
                *SECTION,
                "rules",
                latest,
                "name",
                what=f"'{name}' is the name of {times} rules",
                expected="names that differ, because events name the rule",
                fix="choose another name",
            )
    if detection.enabled and not any(hang_rule.enabled for hang_rule in detection.rules):
        yield error(
            *SECTION,
            what="replaces the default detection by nothing: no rule is enabled",
            expected="a rule with enabled: true",
            fix="add a rule; or set hung_job_detection.enabled: false, if you want no detection",
        )
    if not detection.enabled and detection.rules:
        yield warning(
            *SECTION,
            "rules",
            what="have no effect with hung_job_detection.enabled: false",
            expected="enabled: true, or no rules",
            fix="set enabled: true, or remove the rules",
        )


@rule("ray", "image")
def the_library_is_in_the_image(plan: Plan) -> Iterator[Finding]:
    """Runs send the rules by AWS's library; this project's image has it, another one may not.

    https://pypi.org/project/toolkit-for-ray-on-sagemaker-ai/
    """
    image = plan.settings.image
    if _detection(plan) is None or (isinstance(image, BuiltImage) and image_sets.default_image(image.folder)):
        return
    yield warning(
        *SECTION,
        what="the image is not built from this project's folder, and may lack AWS's library that sends the rules",
        expected="toolkit-for-ray-on-sagemaker-ai in the image; without it runs say so, and send nothing",
        fix="add the package to the image",
    )
