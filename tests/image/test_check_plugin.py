from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


INSTALL, CHECK = (ROOT / "hyperpod_ray/image/efa" / name for name in ("install.sh", "check_plugin.py"))


def compiled(folder: Path, name: str, code: str) -> Path:
    (folder / f"{name}.c").write_text(code)
    library = folder / name
    subprocess.run(
        ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(library), str(folder / f"{name}.c")], check=True
    )
    return library


def checked(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECK), "--nccl", str(folder / "libnccl.so.2"), *words],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """NCCL as it names what it looks up, and libfabric."""
    compiled(tmp_path, "libnccl.so.2", 'const char *asked[] = {"ncclNetPlugin_v9", "ncclNetPlugin_v10"};\n')
    compiled(tmp_path, "libfabric.so.1", "int fi_version(void) { return 1; }\n")
    return tmp_path


def test_no_plugin_is_red(libraries: Path) -> None:
    done = checked(libraries)
    assert (done.returncode, "libnccl-net.so does not load" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("symbol", "code"), [("ncclNetPlugin_v10", 0), ("ncclNetPlugin_v9", 0),
                                              ("ncclNetPlugin_v8", 1), ("ncclNetPlugin_v11", 1)])  # fmt: skip
def test_a_plugin_must_speak_what_nccl_asks_for(libraries: Path, symbol: str, code: int) -> None:
    compiled(libraries, "libnccl-net.so", f'struct {{ const char *name; }} {symbol} = {{"ofi"}};\n')
    done = checked(libraries)
    assert done.returncode == code, done.stderr
    assert (symbol in done.stdout) if code == 0 else "has none of 2 versions" in done.stderr


def test_a_plugin_whose_libfabric_is_missing_is_red(libraries: Path) -> None:
    (libraries / "libnccl-net.c").write_text(
        "int fi_version(void); int ncclNetPlugin_v10(void) { return fi_version(); }\n"
    )
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", str(libraries / "libnccl-net.so"), str(libraries / "libnccl-net.c"),
         str(libraries / "libfabric.so.1")], check=True,
    )  # fmt: skip
    assert checked(libraries).returncode == 0
    (libraries / "libfabric.so.1").unlink()
    done = checked(libraries)
    assert (done.returncode, "libfabric.so.1" in done.stderr) == (1, True)


def test_the_name_of_nccls_variable_is_understood(libraries: Path) -> None:
    compiled(libraries, "libnccl-net-ofi.so", "int ncclNetPlugin_v10 = 1;\n")
    assert checked(libraries).returncode == 1
    assert checked(libraries, "--plugin", "ofi").returncode == 0


def test_no_nccl_at_all_is_red() -> None:
    done = subprocess.run([sys.executable, "-S", str(CHECK)], capture_output=True, text=True, check=False)
    assert (done.returncode, "no NCCL beside torch" in done.stderr) == (1, True)
