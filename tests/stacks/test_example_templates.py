"""Every example synthesizes, and can be reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.core.loader import FOLDER, environment_names
from hyperpod_ray.review.review import review
from tests.review.small import write
from tests.stacks.assembled import Assembly, synthesize

EXAMPLES = FOLDER / "examples"


@pytest.fixture(scope="module", params=environment_names(folder=EXAMPLES))
def example(request: pytest.FixtureRequest) -> Assembly:
    return synthesize(request.param, folder=EXAMPLES)


def test_folders_are_linked_to_s3_as_the_file_says() -> None:
    made = synthesize("data-in-s3", folder=EXAMPLES)
    file_system = next(iter(made.of_type("AWS::FSx::FileSystem"))).partition("/")[2]
    links = {
        resource["Properties"]["FileSystemPath"]: resource["Properties"]
        for resource in made.of_type("AWS::FSx::DataRepositoryAssociation").values()
    }
    data, runs = links["/data/images"], links["/runs"]
    assert data["FileSystemId"] == {"Ref": file_system}
    assert (data["DataRepositoryPath"], runs["DataRepositoryPath"]) == (
        "s3://research-datasets/images/",
        "s3://research-checkpoints/",
    )
    assert data["BatchImportMetaDataOnCreate"] is True
    assert data["S3"]["AutoImportPolicy"]["Events"] == ["NEW", "CHANGED", "DELETED"]
    assert (data["S3"]["AutoExportPolicy"]["Events"], runs["S3"]["AutoImportPolicy"]["Events"]) == ([], [])
    assert runs["S3"]["AutoExportPolicy"]["Events"] == ["NEW", "CHANGED"]


@pytest.mark.slow
def test_the_review_says_what_is_created(example: Assembly, tmp_path: Path) -> None:
    nothing = write(tmp_path / "nothing", {})
    (environment,) = review(nothing, example.folder, only=example.name).environments
    assert [row.code for row in environment.rows] == ["environment-added"]
    assert f"{len(example.templates)} stacks" in environment.rows[0].consequence
