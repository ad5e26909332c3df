from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main as run
from tests.k8s.k8s_render_helpers import contents


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("manifests") / "local"
    assert run(["manifests", "local", "--out", str(out)]) == 0
    return out


def test_same_input_same_bytes_and_nothing_of_before(local: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    assert run(["manifests", "local", "--out", str(out)]) == 0
    assert contents(out) == contents(local)
    (out / "99-left-over.yaml").write_text("kind: Secret\n", encoding="utf-8")
    assert run(["manifests", "local", "--out", str(out)]) == 0
    assert contents(out) == contents(local)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    assert run(["manifests", "local", "--out", str(tmp_path)]) == 2
    assert "contains other files (thesis.txt)" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_unknown_environment_is_one_message_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifests", "nowhere"]) == 2
    said = capsys.readouterr().err
    assert "nowhere" in said
    assert "Traceback" not in said
