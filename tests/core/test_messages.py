"""What a wrong value is called: one line of a good file changed, and the message in its three parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hyperpod_ray.core import messages
from hyperpod_ray.core.loader import EnvironmentFileError, Problem, parse
from tests.core.environment_files import changed

GOOD = yaml.safe_dump(changed({}), sort_keys=False)
ACCOUNT, COUNT, TYPE, MODE = "account: '123456789012'", "count: 4", "type: ml.p5.48xlarge", "mode: static"
NAME, ZONES = "cluster_name: test", "network:\n  availability_zone_ids:\n  - usw2-az1\n  - usw2-az2"
AN_ACCOUNT = "an AWS account ID (12 digits, in quotes), such as '123456789012'"
CORRECT, WORKERS = "correct the value", "hyperpod.instance_groups[1]"
A_NETWORK = (
    "a section of settings (availability_zone_ids, proxy, cidr, zone_slots, node_subnet_prefix, egress …)"
)  # fmt: skip
ONE_OF = "one of static, intelligent_tiering, dynamic"
CASES: dict[str, tuple[str, str, str, str, str, str]] = {
    "a name that is nearly right": (
        "region: us-west-2", "regio: us-west-2", "regio", "unknown setting", "a setting of this section",
        "did you mean 'region'?",
    ),
    "a setting of another section": (
        NAME, f"{NAME}\n  capacity_gib: 5", "hyperpod.capacity_gib", "unknown setting here",
        "a setting of this section", "move it to storage.capacity_gib",
    ),
    "a setting of the other orchestrator": (
        "storage:", "homes: {mode: new}\nstorage:", "homes",
        "a setting of orchestrator slurm, and this environment's is eks", "settings of orchestrator eks",
        "remove it, or begin a file with orchestrator: slurm",
    ),
    "missing": (
        "region: us-west-2\n", "", "region", "required setting is missing", "region: the AWS region", "add it",
    ),
    "a number that is text": (
        ACCOUNT, "account: 123456789012", "account", "`123456789012` is a number in YAML", "text",
        "quote it: '123456789012'",
    ),
    "a boolean that is text": (
        ACCOUNT, "account: yes", "account", "`yes` is a boolean in YAML", "text", "quote it: 'yes'",
    ),
    "empty text": (ACCOUNT, "account: ''", "account", "the value is empty", AN_ACCOUNT, CORRECT),
    "text of another shape": (ACCOUNT, "account: '123'", "account", "'123'", AN_ACCOUNT, CORRECT),
    "a space": (
        ACCOUNT, "account: ' 123456789012'", "account", "' 123456789012' has leading or trailing spaces", AN_ACCOUNT,
        "remove the spaces",
    ),
    "a list": (ACCOUNT, "account: [1]", "account", "a list of 1", "text", CORRECT),
    "an empty list": (ACCOUNT, "account: []", "account", "an empty list", "text", CORRECT),
    "a section": (ACCOUNT, "account: {a: 1}", "account", "a section", "text", CORRECT),
    "an empty section": (ACCOUNT, "account: {}", "account", "an empty section", "text", CORRECT),
    "nothing": (ACCOUNT, "account:", "account", "nothing (null)", "text", CORRECT),
    "a number in quotes": (
        COUNT, "count: '4'", f"{WORKERS}.count", "the text '4'", "a whole number", "remove the quotes",
    ),
    "a unit": (
        COUNT, "count: 4 GiB", f"{WORKERS}.count", "the text '4 GiB'", "a whole number",
        "remove the unit: the setting's name has it",
    ),
    "a word": (COUNT, "count: four", f"{WORKERS}.count", "the text 'four'", "a whole number", CORRECT),
    "a part": (COUNT, "count: 4.5", f"{WORKERS}.count", "the number 4.5", "a whole number", CORRECT),
    "a boolean": (COUNT, "count: true", f"{WORKERS}.count", "the boolean true", "a whole number", CORRECT),
    "too small": (COUNT, "count: -1", f"{WORKERS}.count", "-1 is too small", "0 or more", CORRECT),
    "too large": (COUNT, "count: 6759", f"{WORKERS}.count", "6759 is too large", "6758 or less", CORRECT),
    "a choice that is nearly right": (
        MODE, "mode: statc", "storage.mode", "'statc'", ONE_OF, "did you mean 'static'?",
    ),
    "another choice": (MODE, "mode: 7", "storage.mode", "7", ONE_OF, "choose one of them"),
    "no choice": (MODE, "mode: yes", "storage.mode", "true", ONE_OF, "choose one of them"),
    "a choice of numbers in quotes": (
        "threads_per_core: 2", "threads_per_core: '2'", "hyperpod.instance_groups[0].threads_per_core", "the text '2'",
        "a number", "remove the quotes",
    ),
    "another number": (
        "threads_per_core: 2", "threads_per_core: 3", "hyperpod.instance_groups[0].threads_per_core", "3",
        "one of 1, 2", "choose one of them",
    ),
    "a type without ml": (
        TYPE, "type: p5.48xlarge", f"{WORKERS}.type", "'p5.48xlarge'", "a HyperPod instance type",
        "did you mean 'ml.p5.48xlarge'?",
    ),
    "a type in capitals": (
        TYPE, "type: ML.P5.48xlarge", f"{WORKERS}.type", "'ML.P5.48xlarge'", "a HyperPod instance type",
        "did you mean 'ml.p5.48xlarge'?",
    ),
    "a type without its dot": (
        TYPE, "type: mlp5.48xlarge", f"{WORKERS}.type", "'mlp5.48xlarge'", "a HyperPod instance type",
        "did you mean 'ml.p5.48xlarge'?",
    ),
    "a type like none": (
        TYPE, "type: x", f"{WORKERS}.type", "'x'", "a HyperPod instance type, such as 'ml.p5.48xlarge'", CORRECT,
    ),
    "too long": (
        NAME, f"cluster_name: {'x' * 80}", "hyperpod.cluster_name", f"'{'x' * 57}…' has 80 characters", "at most 63",
        "shorten it",
    ),
    "a section without settings": (
        ZONES, "network:", "network", "the section is empty", A_NETWORK, "write its settings, or remove the key",
    ),
    "text for a section": (
        ZONES, "network: text", "network", "the text 'text'", A_NETWORK, "write them below the key, indented",
    ),
    "text for a list": (
        ZONES, "network: {availability_zone_ids: usw2-az1}", "network.availability_zone_ids", "the text 'usw2-az1'",
        "a list", "write [a, b], or lines that begin with '- '",
    ),
    "too few": (
        ZONES, "network: {availability_zone_ids: []}", "network.availability_zone_ids", "0 entries",
        "at least 2 entries", "add what is missing",
    ),
    "one of two": (
        ZONES, "network: {availability_zone_ids: [usw2-az1]}", "network.availability_zone_ids", "1 entry",
        "at least 2 entries", "add what is missing",
    ),
    "text for a boolean": (
        "region:", "protected: 'yes'\nregion:", "protected", "the text 'yes'", "true or false", CORRECT,
    ),
    "a number for a boolean": (
        "region:", "protected: 1\nregion:", "protected", "the number 1", "true or false", CORRECT,
    ),
}  # fmt: skip


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(EnvironmentFileError) as refused:
        parse(text, name="test", path=Path("test.yaml"))
    return refused.value.problems


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_value_in_words(case: str) -> None:
    old, new, path, what, expected, fix = CASES[case]
    problem = problems_of(GOOD.replace(old, new, 1))[0]
    assert (problem.path, problem.what, problem.expected, problem.fix) == (path, what, expected, fix)


def test_a_setting_that_nobody_knows_names_those_of_its_section() -> None:
    (problem,) = problems_of(GOOD.replace(NAME, f"{NAME}\n  nonsense: 5", 1))
    assert (problem.path, problem.what, problem.fix) == (
        "hyperpod.nonsense", "unknown setting", "correct or remove it",
    )  # fmt: skip
    names = problem.expected.removeprefix("one of ").split(", ")
    assert names == sorted(names) and {"cluster_name", "instance_groups"} <= set(names)


VALUES = {
    "nothing (null)": None, "true": True, "'x'": "x", "7": 7, "a section": {"a": 1}, "an empty section": {},
    "a list of 2": [1, 2], "an empty list": [],
}  # fmt: skip


@pytest.mark.parametrize("words", VALUES)
def test_a_value_is_short_and_printable(words: str) -> None:
    assert messages.shown(VALUES[words]) == words
    assert messages.shown("x" * 60) == f"'{'x' * 60}'"
    assert messages.shown("x" * 61) == f"'{'x' * 57}…'"
    assert len(messages.shown(10**80)) == 60


def test_what_a_path_may_hold() -> None:
    """A section has one model for each of its kinds; text that stands for another kind has none."""
    assert len(messages.sections_at(("hyperpod", "instance_groups", 0))) == 1
    assert len(messages.sections_at(("storage",))) > 1
    for path in (("nothing",), ("account",), ("account", "x"), ("hyperpod", "instance_groups", "name"), ("ray", 0)):
        assert messages.sections_at(path) == []
    assert messages.options_at(("account",)) == [str]
    assert messages.options_at(()) != []
