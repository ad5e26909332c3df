"""Where the platform data comes from, and on which day it is stale."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.cli.main import main
from hyperpod_ray.core import provenance
from hyperpod_ray.core.model import NewEks
from hyperpod_ray.core.provenance import FILES, ProvenanceError, about_of, data_sets
from hyperpod_ray.core.service_limits import platform

PROJECT = Path(__file__).resolve().parents[2]

DAY = date(2026, 11, 27)
ABOUT = {"what": "things", "as_of": date(2026, 11, 1), "source": "https://example.com", "stale_after_days": 30}


def state_on(day: str, **change: Any) -> str:
    about = provenance.About.model_validate({**ABOUT, **change})
    return provenance._judged("file.yaml", about, date.fromisoformat(day)).state


@pytest.mark.parametrize(
    ("day", "change", "state"),
    [
        ("2026-11-30", {}, "current"),
        ("2026-12-01", {}, "stale"),
        ("2026-11-09", {"until": date(2026, 11, 10)}, "current"),
        ("2026-11-10", {"until": date(2026, 11, 10)}, "expired"),
        ("2026-11-02", {"newer": "2.0 of 2026-11-01"}, "behind"),
        ("2026-12-01", {"newer": "2.0 of 2026-11-01"}, "stale"),
    ],
)
def test_state_by_day(day: str, change: dict[str, Any], state: str) -> None:
    assert state_on(day, **change) == state


def test_each_data_file_of_the_product_says_where_it_comes_from() -> None:
    """Data: each YAML file that code reads as facts of others. Settings and generated files are not."""
    not_facts = {"charts.contents.yaml"}
    there = {
        str(path.relative_to(PROJECT))
        for folder in ("hyperpod_ray", "hyperpod_ray_rules")
        for path in (PROJECT / folder).glob("**/*.yaml")
        if path.name not in not_facts
    }
    assert there == set(FILES)
    assert [path.name for path in PROJECT.glob("[!.]*.yaml")] == []


def test_the_issues_list_is_covered() -> None:
    words = " | ".join(found.what for found in data_sets(DAY))
    for part in (
        "Kubernetes versions", "instance types", "Regions of instance types", "prices: instances", "durations",
        "service quotas", "HyperPod chart", "digests of mirrored images", "EKS add-ons", "KubeRay",
        "zones that EKS refuses",
    ):  # fmt: skip
        assert part in words


def test_prices_are_as_old_as_their_oldest_entry() -> None:
    data = yaml.safe_load((PROJECT / provenance.PRICES).read_text(encoding="utf-8"))

    def days(node: Any) -> Iterator[date]:
        for key, value in node.items():
            if key == "as_of":
                yield value
            elif isinstance(value, dict):
                yield from days(value)

    found = {one.what.partition(" (")[0]: one.as_of for one in data_sets(DAY) if one.file == provenance.PRICES}
    assert found == {
        f"prices: {section}": min(days(data[section])) for section in ("instances", "storage", "fixed", "usage")
    }


def test_support_expires_with_the_default_version() -> None:
    """Past that day a new environment starts in extended support."""
    (about,) = [
        one for one in about_of(PROJECT / FILES[0], FILES[0]) if one.what == "EKS support of Kubernetes versions"
    ]
    assert about.until == platform().eks_support[NewEks().version].standard


def test_nothing_is_of_the_future() -> None:
    assert [found.what for found in data_sets(DAY) if found.age_days < 0] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("other: 1\n", "file.yaml: no about"),
        ("about: [{what: x things, source: page, stale_after_days: 3}]\n", "about.as_of: Field required"),
        ("about: [{what: x things, as_of: 2026-11-01, source: page, stale_after_days: 0}]\n", "about.stale_after_days"),
    ],
)
def test_a_file_without_a_source_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(ProvenanceError, match=says):
        about_of(tmp_path / "file.yaml", "file.yaml")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["data", *arguments])
    return code, capsys.readouterr().out


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERPOD_RAY_DATE", "2026-11-22")
    code, text = run(capsys, "-o", "json")
    rows = {row["what"]: row for row in json.loads(text)["data"]}
    assert code == 0
    assert rows["zones that EKS refuses"]["state"] == "current"
    assert rows["zones that EKS refuses"]["age_days"] == 0
    monkeypatch.setenv("HYPERPOD_RAY_DATE", "2027-03-27")
    code, text = run(capsys, "--fail-on-stale", "-o", "json")
    rows = {row["what"]: row for row in json.loads(text)["data"]}
    assert code == 3
    assert rows["EKS support of Kubernetes versions"]["state"] == "expired"
    assert rows["Kubernetes versions of HyperPod"]["state"] == "stale"
    assert rows["durations of CloudFormation resources"]["state"] == "current"


def test_the_command_without_an_answer_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    current = [one for one in data_sets(DAY) if one.state == "current"]
    monkeypatch.setattr(provenance, "data_sets", lambda day: current)
    assert run(capsys, "--fail-on-stale")[0] == 0


def test_reports(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, text = run(capsys, "-o", "markdown")
    assert code == 0
    assert "| Data | File | As of | Age | Stale on | State | Source |" in text
    _, text = run(capsys)
    assert "zones that EKS refuses: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html" in text


def test_a_day_that_is_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERPOD_RAY_DATE", "tomorrow")
    assert main(["data"]) == 2
    assert "HYPERPOD_RAY_DATE: 'tomorrow'. Expected a day such as 2027-01-31" in capsys.readouterr().err
