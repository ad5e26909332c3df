"""A plan as text: every answer as a table and as Markdown, and two environments beside each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from tests.cli.plan_helpers import RUN, figure


def test_markdown_and_table_have_every_answer(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("markdown", "table"):
        assert main(["plan", "prod", *RUN, "-o", form]) == 0
        text = capsys.readouterr().out
        for letter in "abcdef":
            assert re.search(rf"^(## )?{letter}\. ", text, flags=re.MULTILINE)
        assert "Not known" in text


def test_two_environments_beside_each_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "prod.yaml").read_text(encoding="utf-8").replace("capacity_gib: 7200", "capacity_gib: 2400")
    text = text.replace("ray-prod", "ray-slow")
    (folder / "slow.yaml").write_text(text, encoding="utf-8")
    assert main(["--environments", str(folder), "plan", "prod", *RUN, "--compare", "slow", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["compared_with"]["environment"] == "slow"
    slow = figure(data["compared_with"], "checkpoint", "to write, all nodes")["central"]
    assert slow == pytest.approx(3 * figure(data, "checkpoint", "to write, all nodes")["central"])
