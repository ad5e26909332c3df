from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.image import recording
from hyperpod_ray.image.versions import FILE, ImageError, choose, read, record_digest
from tests.image.image_registry_helpers import Registry

ROOT = Path(__file__).parents[2]


def test_a_digest_is_recorded_once_and_then_guarded(tmp_path: Path) -> None:
    file = tmp_path / "versions.yaml"
    shutil.copy(FILE, file)
    name = read(file)[0]
    first, second = "sha256:" + "1a" * 32, "sha256:" + "2b" * 32

    def current() -> object:
        return read(file)[1][name]

    assert "commit it" in record_digest(read(file)[1][name], first, file=file)
    sharing = {key for key, one in read(FILE)[1].items() if one.origin == name}
    others = [one.digest for key, one in read(file)[1].items() if key not in sharing]
    assert {read(file)[1][key].digest for key in sharing} == {first}
    assert others == [one.digest for key, one in read(FILE)[1].items() if key not in sharing]
    changed = [a for a, b in zip(FILE.read_text().splitlines(), file.read_text().splitlines(), strict=True) if a != b]
    assert len(changed) == 1, "comments and all else stay"
    assert "still" in record_digest(read(file)[1][name], first, file=file)
    before = current()
    with pytest.raises(ImageError, match=r"the tag was moved.*hyperpod-ray image pin --update"):
        record_digest(read(file)[1][name], second, file=file)
    assert current() == before
    record_digest(read(file)[1][name], second, update=True, file=file)
    assert read(file)[1][name].digest == second


def test_the_command_says_in_one_line_what_is_wrong(registry: Registry) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hyperpod_ray.cli", "image", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    before = FILE.read_bytes()
    failed = run("pin", "--only", "base", "--mirror", registry.url)  # it knows another tag only
    assert (failed.returncode, failed.stderr.count("\n")) == (1, 2)
    assert choose().tag in failed.stderr
    wrong = run("pin", "cu99")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "error: image set: 'cu99'. Expected one of cu130, cu128, cu130-transformers, cu128-transformers\n"
        "Fix: correct the name\n",
    )
    assert FILE.read_bytes() == before


def test_a_part_out_of_reach_leaves_the_others_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(*_: object, **__: object) -> list[str]:
        raise ImageError("registry: no answer", expected="an answer", fix="open the network")

    monkeypatch.setattr(recording, "base", unreachable)
    monkeypatch.setattr(recording, "installer", lambda *_, **__: ["installer: recorded"])
    monkeypatch.setattr(recording, "copies", lambda **_: ["copies: recorded"])
    assert main(["image", "pin"]) == 1
    said = capsys.readouterr()
    assert said.out == "installer: recorded\ncopies: recorded\n"
    assert said.err == "error: registry: no answer. Expected an answer\nFix: open the network\n"
    assert main(["image", "pin", "--only", "copies"]) == 0
    assert capsys.readouterr().out == "copies: recorded\n"
