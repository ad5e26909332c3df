"""What is kept of a large module: its functions too, and never of another text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.aws import install, paths

PADDING = "//" + "x" * (1 << 20)


def run(program: Path, cache: Path) -> str:
    return subprocess.run(
        [str(install.node()), "--require", str(paths.COMPILED), str(program)],
        env={"NODE_COMPILE_CACHE": str(cache)}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "small.js").write_text("exports.word = 'small'")
    large = "exports.words = () => [require('./small').word, __filename, __dirname, require('node:path').sep];"
    (tmp_path / "large.js").write_text(
        f"{large}\nimport('node:fs').then((fs) => console.log(typeof fs.statSync));\n{PADDING}"
    )
    (tmp_path / "main.js").write_text("console.log(...require('./large').words())")
    return tmp_path / "main.js"


def test_a_large_module_runs_as_without_it_and_is_kept_once(program: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    said = f"small {tmp_path / 'large.js'} {tmp_path} /\nfunction\n"
    assert run(program, cache) == said
    (kept,) = [file for file in cache.iterdir() if file.is_file()]
    before = kept.stat().st_mtime_ns
    assert run(program, cache) == said
    assert kept.stat().st_mtime_ns == before


def test_a_changed_module_and_a_broken_cache_are_compiled(program: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    run(program, cache)
    (kept,) = [file for file in cache.iterdir() if file.is_file()]
    kept.write_bytes(b"broken")
    assert run(program, cache).startswith("small ")
    assert len(kept.read_bytes()) > len(b"broken")
    large = tmp_path / "large.js"
    large.write_text(large.read_text().replace("require('./small').word", "'other, as long as it'"))
    assert run(program, cache).startswith("other, as long as it ")


def test_a_folder_that_is_not_there_hurts_nobody(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path / "missing" / "folder").startswith("small ")
