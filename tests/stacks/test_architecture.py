"""The README's picture is drawn from the app and is not stale."""

from __future__ import annotations

import importlib.util
import sys

from tests.stacks.conftest import PROJECT, Assembly


def test_the_picture_is_of_this_app(assemblies: dict[str, Assembly]) -> None:
    spec = importlib.util.spec_from_file_location("draw_architecture", PROJECT / "docs" / "draw_architecture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    drawn = module.draw(module.read(assemblies["prod"].folder))
    stored = (PROJECT / "docs" / "architecture.svg").read_text()
    assert drawn == stored, "run `make picture` and commit docs/architecture.svg"
