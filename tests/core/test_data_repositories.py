"""Links of the file system to S3: what the file may say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.data_repositories_helpers import linked
from tests.core.environment_files import problems

LINK = {"bucket": "datasets", "path": "/data"}


@pytest.mark.parametrize(
    ("edits", "path", "message"),
    [
        (linked(LINK, {**LINK, "bucket": "b22"}), "storage.data_repositories[1].path", "'/data' overlaps '/data'"),
        (linked(LINK, {"bucket": "b22", "path": "/data/x"}), "storage.data_repositories[1].path", "overlaps"),
        (linked({"bucket": "b22", "path": "/data/x"}, LINK), "storage.data_repositories[1].path", "overlaps"),
        (
            linked(LINK, {"bucket": "b22", "path": "/", "auto_import": []}),
            "storage.data_repositories[1].path",
            "overlaps",
        ),
        (linked(LINK, {**LINK, "path": "/b"}), "storage.data_repositories[1].bucket", "s3://datasets/ is already"),
        (
            linked({**LINK, "prefix": "a/"}, {**LINK, "prefix": "a/", "path": "/b"}),
            "storage.data_repositories[1].prefix",
            "s3://datasets/a/ is already linked by data_repositories[0]",
        ),
        (linked({**LINK, "path": "/.system/redis"}), "storage.data_repositories[0].path", "this project's own"),
        (linked({**LINK, "path": "/"}), "storage.data_repositories[0].auto_import", "checkpoints included"),
        (linked({**LINK, "path": "data"}), "storage.data_repositories[0].path", "a folder of the file system"),
        (linked({**LINK, "path": "/data/"}), "storage.data_repositories[0].path", "none at its end"),
        (linked({**LINK, "bucket": "s3://datasets"}), "storage.data_repositories[0].bucket", "an S3 bucket name"),
        (linked({**LINK, "auto_import": ["NEW", "NEW"]}), "storage.data_repositories[0].auto_import", "twice"),
        (linked({**LINK, "auto_export": ["GONE"]}), "storage.data_repositories[0].auto_export[0]", "NEW"),
        (
            linked({**LINK, "import_metadata": False, "auto_import": []}),
            "storage.data_repositories[0]",
            "nothing goes either way",
        ),
        (linked(LINK, backup_retention_days=7), "storage.backup_retention_days", "no backups of a file system with"),
        (linked(*[{"bucket": f"b{n}-x", "path": f"/p{n}"} for n in range(9)]), "storage.data_repositories", "8"),
    ],
)
def test_what_fsx_refuses_is_refused_before(edits: dict[str, Any], path: str, message: str) -> None:
    found = problems(edits)
    assert [(one.path, message in one.message) for one in found] == [(path, True)], found


@pytest.mark.parametrize("kind", [{"mode": "dynamic"}, {"existing": {}}], ids=["dynamic", "existing"])
def test_only_a_file_system_of_the_stack_has_links(kind: dict[str, Any]) -> None:
    found = problems({"storage": {**kind, "data_repositories": [LINK]}})
    assert any(one.path == "storage.data_repositories" for one in found), found


def test_links_beside_each_other_are_fine() -> None:
    prefixes = linked(
        {**LINK, "prefix": "a/"},
        {"bucket": "datasets", "prefix": "b/", "path": "/data-b"},
        {"bucket": "x-y", "path": "/r"},
    )
    assert problems(prefixes) == []
