"""Ranks that share their imports: torchrun's variables, one group, and the exit code of the one that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.rehearsal.job import FORKED_RANKS
from tests.support.emulator import until

PROJECT = Path(__file__).resolve().parents[2]
PYTHON = PROJECT / ".venv-rehearsal" / "bin" / "python"
MEETS = """
import json, os, sys
import torch.distributed as dist
from pathlib import Path
import counted

dist.init_process_group("gloo")
shared = [None] * dist.get_world_size()
dist.all_gather_object(shared, {"pid": os.getpid(), "rank": dist.get_rank(), "local": os.environ["LOCAL_RANK"]})
Path(sys.argv[1]).with_suffix(f".{dist.get_rank()}").write_text(json.dumps(shared))
dist.barrier()
sys.exit(int(sys.argv[2]) if dist.get_rank() == 1 else 0)
"""
WAITS = """
import os, sys, time
from pathlib import Path
Path(sys.argv[1] + os.environ["RANK"]).write_text(str(os.getpid()))
if os.environ["RANK"] == "0":
    time.sleep(3600)
while not Path(sys.argv[1] + "0").exists() or not Path(sys.argv[1] + ".go").exists():
    time.sleep(0.05)
sys.exit(5)
"""
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="needs .venv-rehearsal (make rehearsal-env)")


def start(script: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    words = [str(PYTHON), "-P", str(FORKED_RANKS), "2", str(script), *arguments]
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
def test_two_ranks_meet_and_what_the_script_imports_is_imported_once(tmp_path: Path, code: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(MEETS)
    (tmp_path / "counted.py").write_text("import os\nprint(os.getpid(), file=open(f'{__file__}.count', 'a'))\n")
    process = start(script, str(tmp_path / "out"), str(code))
    _, error = process.communicate(timeout=600)
    assert process.returncode == code, error
    first, second = (json.loads((tmp_path / f"out.{rank}").read_text()) for rank in range(2))
    assert first == second
    assert [(member["rank"], member["local"]) for member in first] == [(0, "0"), (1, "1")]
    imported_in = (tmp_path / "counted.py.count").read_text().split()
    assert imported_in == [str(process.pid)]
    assert process.pid not in {member["pid"] for member in first}


@pytest.mark.slow
@pytest.mark.parametrize("end", ["a rank fails", "it is stopped"])
def test_no_rank_outlives_a_rank_that_fails_or_the_process_that_forked_it(tmp_path: Path, end: str) -> None:
    script, mark = tmp_path / "train.py", str(tmp_path / "pid-")
    script.write_text(WAITS)
    process = start(script, mark)
    try:
        files = [Path(f"{mark}{rank}") for rank in range(2)]
        until(lambda: all(file.exists() and file.read_text() for file in files))
        pids = [int(file.read_text()) for file in files]
        if end == "a rank fails":
            Path(mark + ".go").touch()
            assert process.wait(600) == 5
        else:
            process.terminate()
            assert process.wait(600) == -signal.SIGTERM
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    finally:
        process.kill()
        process.wait()


BEHIND = "import forked_ranks; forked_ranks.stand_behind(); print(forked_ranks.AUTOGROUP.read_text())"


@pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="this kernel divides by process, where nice counts"
)
@pytest.mark.parametrize("own", [True, False])
def test_a_session_of_its_own_stands_behind_others_and_no_other_session_does(own: bool) -> None:
    shares = [
        subprocess.run(
            [sys.executable, "-c", BEHIND], cwd=FORKED_RANKS.parent, env={}, start_new_session=session,
            capture_output=True, text=True, check=True,
        ).stdout.strip().rpartition(" ")[2]
        for session in (own, True)
    ]  # fmt: skip
    assert shares[1] == "2"
    assert (shares[0] == "2") == own
