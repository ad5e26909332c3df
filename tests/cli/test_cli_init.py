"""Every option of `init` reaches the file of the first environment; `tests/project/` tests what the folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli import new
from hyperpod_ray.cli.main import main
from hyperpod_ray.core import reference

OPTIONS: dict[str, dict[str, Any]] = {
    "--account 111122223333": {"account": "111122223333"}, "--region eu-west-1": {"region": "eu-west-1"},
    "--type ml.g5.48xlarge": {"instance_type": "ml.g5.48xlarge"}, "--count 4": {"count": 4},
    "--admin-role arn:aws:iam::111122223333:role/Admin": {"admin_role": "arn:aws:iam::111122223333:role/Admin"},
}  # fmt: skip


def test_each_option_reaches_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def text(name: str, **rest: Any) -> str:
        asked.append((name, rest))
        return "# the environment\n"

    monkeypatch.setattr(new, "asked_text", text)
    monkeypatch.setattr(reference, "schema", lambda: "{}\n")
    for number, (words, values) in enumerate({"": {}, **OPTIONS}.items()):
        folder = tmp_path / str(number)
        assert main(["init", str(folder), *words.split()]) == 0
        plain = {"account": "", "region": "", "instance_type": "", "count": None, "admin_role": "", "schema": True}
        assert asked.pop() == ("dev", {**plain, **values, "target": folder / "environments" / "dev.yaml"}), words
        assert (folder / "environments" / "dev.yaml").read_text() == "# the environment\n"
    capsys.readouterr()
    folder = tmp_path / "named"
    assert main(["init", str(folder), "--env", "staging"]) == 0
    assert asked.pop()[0] == "staging"
    said = capsys.readouterr()
    written = [line.removeprefix(f"wrote {folder}/") for line in said.out.splitlines()]
    assert written == sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    assert {"environments/staging.yaml", "environments/schema.json", ".gitignore", "README.md", "app.py"} <= {*written}
    assert said.err == f"next: cd {folder}; its README.md has the set-up; then hyperpod-ray env check\n"
    readme = (folder / "README.md").read_text()
    assert "# named" in readme.splitlines()
    assert "staging" in readme


@pytest.mark.parametrize(
    ("files", "listed"), [(("a",), "a"), (("b", "a", "c"), "a, b, c"), (("d", "b", "a", "c"), "a, b, c and more")]
)
def test_a_folder_in_use_is_named_with_what_it_holds(
    tmp_path: Path, files: tuple[str, ...], listed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert main(["init", str(tmp_path)]) == 2
    assert f"{tmp_path} holds {listed}; nothing was written. Expected a new or empty folder" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file")]) == 2
    assert f"{tmp_path / 'file'} is a file. Expected a new or empty folder" in capsys.readouterr().err
