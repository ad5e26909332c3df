from __future__ import annotations

import copy
from pathlib import Path

import pytest

from hyperpod_ray.core import yaml_edit
from hyperpod_ray.core.loader import EnvironmentFileError
from hyperpod_ray.core.yaml_source import read
from tests.environments.upgrade_helpers import OLD, RELEASED, label, paths, upgraded

FILES = sorted(RELEASED.glob("*/**/*.yaml"))


@pytest.mark.parametrize("path", [path for path in FILES if path.parts[-2] != "examples"], ids=label)
def test_each_key_of_a_file_is_removed_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    root, _ = read(text)
    assert root is not None
    for place in paths(root.data()):
        expected = copy.deepcopy(root.data())
        for depth in range(len(place), 0, -1):
            parent = expected
            for key in place[: depth - 1]:
                parent = parent[key]
            del parent[place[depth - 1]]
            if parent:
                break
        after, flaws = read(yaml_edit.removed(text, place))
        assert flaws == []
        assert (after.data() if after is not None else {}) == expected, place


def test_an_edit_that_missed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_edit, "added", lambda text, path, value: text)
    with pytest.raises(EnvironmentFileError, match="cannot be changed as text"):
        upgraded(OLD)
