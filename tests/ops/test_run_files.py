from __future__ import annotations

import json
import re
import shlex

import pytest

from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.errors import CONDITION_FALSE, OpsError
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.orchestrators.eks import runs
from hyperpod_ray.ops.orchestrators.run_files import files_of
from tests.ops.ops_jobs_api_helpers import Head, reads


def test_files_of_the_shared_file_system_come_through_the_dashboard(head: Head, clock: list[float]) -> None:
    listed = {"name": "rank/a b", "bytes": 3, "crc32": 7}
    answer = {"found": True, "files": [listed], "link": "hyperpod-ray-pull/key"}
    reads(head, {"status": "SUCCEEDED", "driver_node_id": "n"}, logs=f"{reader.MARK}{json.dumps(answer)}\n")
    files, read = runs._through_ray(head.jobs, "/fsx/runs/my run", patterns=["rank/*"])
    assert [(file.name, file.bytes, file.crc32) for file in files] == [("rank/a b", 3, 7)]
    words = shlex.split(next(json.loads(body) for _, path, _, body in head.asked if path == "/api/jobs/")["entrypoint"])
    assert words[:3] == ["python", "-m", f"{in_ray.PACKAGE}.files"]
    assert re.fullmatch("[0-9a-f]{16}", words[3]), "nobody guesses the name under which the files are served"
    assert words[4:] == ["/fsx/runs/my run", "rank/*"]
    head.says("GET", "/api/v0/logs/file", b"abc")
    with read("rank/a b") as parts:
        assert b"".join(parts) == b"abc"
    query = head.asked[-1][1].partition("?")[2].split("&")
    # a space as %20: Ray takes a plus for itself
    assert {"node_id=n", "filename=hyperpod-ray-pull%2Fkey%2Frank%2Fa%20b", "lines=-1"} < {
        part.replace("filename=hyperpod-ray-pull/key/rank/", "filename=hyperpod-ray-pull%2Fkey%2Frank%2F")
        for part in query
    }
    reads(head, {"status": "SUCCEEDED"}, logs=f'{reader.MARK}{{"damaged": "checksums-0.json is damaged"}}\n')
    with pytest.raises(OpsError, match=r"/fsx/x: checksums-0\.json is damaged") as damaged:
        runs._through_ray(head.jobs, "/fsx/x", patterns=[])
    assert damaged.value.code == CONDITION_FALSE


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", ".pull.json"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str) -> None:
    with pytest.raises(OpsError, match="the cluster lists a file"):
        files_of([{"name": name, "bytes": 1, "crc32": None}])
