"""What Python and macOS leave beside a source is not uploaded and changes no template."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from hyperpod_ray.constructs import waiter
from hyperpod_ray.constructs.claims import ClaimWaiter
from hyperpod_ray.constructs.lifecycle import LifecycleScripts


def leave(folder: Path) -> None:
    """What an import, an older Python and the Finder leave."""
    for name in ("__pycache__/index.cpython-314.pyc", "inner/__pycache__/a.pyc", "index.pyc", ".DS_Store"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\x00")


def templates(folder: Path, out: Path) -> tuple[dict[str, Any], set[str]]:
    """The template of a handler's and of a scripts' upload, and the names of the files that are uploaded."""
    app = App(outdir=str(out), builtin_cloud_formation_validation=False)
    stack = Stack(app, "Test")
    ClaimWaiter(stack, "Waiter")
    LifecycleScripts(stack, "Scripts", bucket_name="sagemaker-test", folder=folder)
    app.synth()
    uploads = {path.name for path in out.glob("asset.*/**/*") if path.is_file()}
    return dict(Template.from_stack(stack).to_json()), uploads


def test_what_tools_leave_changes_no_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers, scripts = tmp_path / "handlers", tmp_path / "scripts"
    shutil.copytree(waiter.HANDLERS, handlers, ignore=shutil.ignore_patterns("__pycache__"))
    scripts.mkdir()
    (scripts / "on_create.sh").write_text("true\n")
    monkeypatch.setattr(waiter, "HANDLERS", handlers)
    clean, _ = templates(scripts, tmp_path / "clean")
    leave(handlers / "file_systems_of_claims")
    leave(scripts)
    left, uploads = templates(scripts, tmp_path / "left")
    assert left == clean
    assert {"index.py", "on_create.sh"} <= uploads
    assert not {name for name in uploads if name.endswith(".pyc") or name == ".DS_Store"}


def test_what_changes_a_source_changes_its_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers, scripts = tmp_path / "handlers", tmp_path / "scripts"
    shutil.copytree(waiter.HANDLERS, handlers)
    scripts.mkdir()
    (scripts / "on_create.sh").write_text("true\n")
    monkeypatch.setattr(waiter, "HANDLERS", handlers)
    before, _ = templates(scripts, tmp_path / "before")
    (scripts / "more.sh").write_text("true\n")
    script, _ = templates(scripts, tmp_path / "script")
    with (handlers / "file_systems_of_claims" / "index.py").open("a") as source:
        source.write("# more\n")
    handler, _ = templates(scripts, tmp_path / "handler")
    assert before != script != handler
