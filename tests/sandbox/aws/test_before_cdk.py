"""What Node.js loads before the cdk CLI: a large module runs the same and is kept, a log has the same words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.aws import install, paths
from tests.support.emulator import ROOT

PADDING = "//" + "x" * (1 << 20)


def run(program: Path, cache: Path) -> str:
    return subprocess.run(
        [str(install.node()), "--require", str(paths.BEFORE_CDK), str(program)],
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


def test_the_log_says_of_a_large_body_what_it_said(tmp_path: Path) -> None:
    """By the CLI's own function; other buffers keep their bytes."""
    cli = (ROOT / "node_modules" / "aws-cdk" / "lib" / "index.js").read_text()
    words = "\n".join(
        re.search(rf"^function {name}\(.*?^}}$", cli, re.MULTILINE | re.DOTALL)[0]  # type: ignore[index]
        for name in ("formatBytes", "isJsonBuffer", "replacerBufferWithInfo")
    )
    bodies = "{Body: Buffer.alloc(5242880), Small: Buffer.from('abc')}"
    program = tmp_path / "log.js"
    program.write_text(
        f"{words}\nconsole.log(JSON.stringify({bodies}, replacerBufferWithInfo), JSON.stringify(Buffer.from('abc')))"
    )
    plain = subprocess.run([str(install.node()), str(program)], capture_output=True, text=True, check=True).stdout
    assert "<Buffer: 5" in plain
    assert run(program, tmp_path) == plain
