"""Files with every section, each changed in one place: located messages, never an internal error, no secret echoed.

`EVERY_SECTION=1` judges every variation; the default is what a test run can wait for, the same in every run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core import checks
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import RULES, Finding, Rule
from hyperpod_ray.core.loader import EnvironmentFileError, parse_any
from tests.core.every_section import bases, variations

BASES = bases()
STEP = 1 if os.environ.get("EVERY_SECTION") else 29
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
FILE = Path("environments/broken.yaml")


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that fails shows, also where another one refuses the file."""
    monkeypatch.setattr(checks, "FORGIVING", False)


def said(data: Any) -> list[str]:
    """What is said of a file."""
    try:
        file = parse_any(yaml.dump(data, Dumper=DUMPER, sort_keys=False), name="broken", path=FILE)
    except EnvironmentFileError as error:
        return [str(problem) for problem in [*error.problems, *error.warnings]]
    return [str(problem) for problem in file.warnings]


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_no_file_is_an_internal_error(name: str) -> None:
    for number, (what, data) in enumerate(variations(BASES[name])):
        if number % STEP == len(name) % STEP:
            try:
                messages = said(data)
            except Exception as error:
                raise AssertionError(f"{name}: {what}: {error!r}") from error
            assert all(message.isprintable() for message in messages), (what, messages)


def test_an_unknown_name_under_observability_is_said() -> None:
    """The section reads groups, types and workers: each of them may be what is wrong."""
    base = BASES["prod-observed"]
    for path, value in (
        (("hyperpod", "instance_groups", 1, "type"), "ml.p9.48xlarge"),
        (("hyperpod", "instance_groups", 1, "name"), "wrokers"),
        (("ray", "workers", 0, "instance_group"), "wrokers"),
    ):
        data = yaml.safe_load(yaml.safe_dump(base))
        here = data
        for part in path[:-1]:
            here = here[part]
        here[path[-1]] = value
        assert any("ml.p9" in message or "wrokers" in message or "'workers'" in message for message in said(data))


@pytest.mark.parametrize("region", ["us-west-3", "eu-west-4"])
def test_a_region_that_nobody_lists_is_the_only_error(region: str) -> None:
    errors = [message for message in said({**BASES["prod"], "region": region}) if "warning: " not in message]
    assert ["is no AWS Region known here" in message for message in errors] == [True], errors


def test_a_rule_that_fails_is_not_hidden_in_a_good_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(plan: CommonPlan) -> Iterator[Finding]:
        raise KeyError(plan.name)

    monkeypatch.setattr(checks, "RULES", [*RULES, Rule(check=fails, shared=frozenset({"region"}))])
    monkeypatch.setattr(checks, "FORGIVING", True)
    with pytest.raises(KeyError):
        said(BASES["prod"])
    assert said({**BASES["prod"], "region": "us-west-3"})


SECRETS = {
    "a password of an address": ("ray", "tracking", {"mlflow": "https://bob:hunter22@example.com"}),
    "a password without a user": (
        "ray", "gcs_fault_tolerance", {"driver_instance_group": "head", "redis_address": "rediss://:hunter22@a.example.com:6379"}
    ),
    "a long one": ("ray", "tracking", {"mlflow": f"https://bob:hunter22{'x' * 80}@example.com"}),
    "a token": ("training", "model", "hf_hunter22AAAAAAAAAAAAAAAAAAAA"),
    "a key where a name belongs": ("hyperpod", "cluster_name", "AKIAHUNTER22HUNTER22 "),
    "an address as a key": ("ray", "https://bob:hunter22@example.com", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_no_message_echoes_a_secret(name: str) -> None:
    section, key, value = SECRETS[name]
    data = {**BASES["prod"], section: {**BASES["prod"][section], key: value}}
    messages = said(data)
    assert messages
    assert not [message for message in messages if "hunter22" in message.lower()], messages
