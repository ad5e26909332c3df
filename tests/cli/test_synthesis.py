"""The cdk CLI behind the commands: a configuration that it answers with a stack trace, and an assembly of yours."""

from __future__ import annotations

from pathlib import Path

from tests.cli.mistakes_helpers import refused, run
from tests.cli.test_anywhere import PROJECT


def test_conflict_markers_in_the_configuration_of_cdk(project: Path) -> None:
    (project / "node_modules").symlink_to(PROJECT / "node_modules")
    file = project / "cdk.json"
    text = file.read_text()
    file.write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n")
    refused(run("diff", "dev", cwd=project), "cdk.json:1: conflict markers of a merge")
    file.write_text(text[:-3])
    refused(run("diff", "dev", cwd=project), "cdk.json: no JSON")
