"""Alert rules as Prometheus' own promtool judges them: their syntax, and what they do with series over time.

Where promtool is on PATH (Debian: package `prometheus`) it judges; everywhere else its recorded verdict must be of the
same texts. To record it again: python -m tests.core.test_metric_alerts
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core import load, metric_alerts
from hyperpod_ray.core.loader import FOLDER
from tests.core.environment_files import plan as plan_of

HERE = Path(__file__).parent
CASES = HERE / "alert_cases.yaml"
VERDICT = HERE / "alert_verdict.json"


def rules() -> str:
    """Of the example; the text that AMP gets."""
    return metric_alerts.rules(load("observability", folder=FOLDER / "examples").plan)


def cases() -> str:
    """The cases, with the annotations of the rules in their places."""
    (group,) = json.loads(rules())["groups"]
    annotations = {rule["alert"]: rule["annotations"] for rule in group["rules"]}
    made: dict[str, Any] = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    for case in made["tests"]:
        for check in case["alert_rule_test"]:
            for expected in check["exp_alerts"]:
                assert expected["exp_annotations"] == "ANNOTATIONS"
                expected["exp_annotations"] = annotations[check["alertname"]]
    return yaml.safe_dump({**made, "rule_files": ["rules.yaml"]}, sort_keys=False)


def digest() -> str:
    """Of what promtool reads."""
    return hashlib.sha256(f"{rules()}\n---\n{cases()}".encode()).hexdigest()


def judged(folder: Path) -> dict[str, str]:
    """What promtool says now."""
    program = shutil.which("promtool")
    assert program is not None
    (folder / "rules.yaml").write_text(rules(), encoding="utf-8")
    (folder / "cases.yaml").write_text(cases(), encoding="utf-8")

    def run(*words: str) -> str:
        done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        said = f"{done.stdout}{done.stderr}"
        assert done.returncode == 0, said
        return said

    return {
        "sha256": digest(),
        "check rules": run("check", "rules", "rules.yaml").split()[-3:][0],
        "test rules": run("test", "rules", "cases.yaml").split()[-1],
        "promtool": run("--version").split()[2],
    }


def test_promtool_takes_the_rules_and_they_do_what_the_cases_say(tmp_path: Path) -> None:
    recorded = json.loads(VERDICT.read_text(encoding="utf-8"))
    assert recorded["test rules"] == "SUCCESS"
    assert recorded["check rules"] == str(len(json.loads(rules())["groups"][0]["rules"]))
    assert recorded["sha256"] == digest(), "rules or cases have changed: see the module's docstring"
    if shutil.which("promtool"):
        assert {**judged(tmp_path), "promtool": ""} == {**recorded, "promtool": ""}


def test_every_alert_has_a_case_in_which_it_is_sent_and_one_in_which_it_is_not() -> None:
    sent: dict[bool, set[str]] = {True: set(), False: set()}
    for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]:
        for check in case["alert_rule_test"]:
            sent[bool(check["exp_alerts"])].add(check["alertname"])
    names = {rule["alert"] for rule in json.loads(rules())["groups"][0]["rules"]}
    assert sent[True] == sent[False] == names


def test_runs_are_watched_in_every_namespace_of_ray() -> None:
    user = {"role_arn": "arn:aws:iam::123456789012:role/Team", "namespaces": ["ray", "team-a"]}
    for edits, where in (({}, 'namespace="ray"'), ({"eks/ray_users": [user]}, 'namespace=~"ray|team-a"')):
        (found,) = [
            alert
            for alert in metric_alerts.alerts(plan_of({"observability": {"no_step_minutes": 7}, **edits}))
            if alert.mail.name == "NoTrainingStep"
        ]
        series = f"ray_training_run_step_time_seconds{{{where}}}"
        assert found.expr == (
            f"time() - max by (namespace, run) (max_over_time({series}[7m])) > 420 "
            f"and on (namespace, run) max by (namespace, run) ({series})"
        )


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        VERDICT.write_text(json.dumps(judged(Path(made)), indent=1) + "\n", encoding="utf-8")
