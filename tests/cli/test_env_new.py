"""`env new`: every file that it writes passes the check; what cannot be written is one message."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.core import load, new_file, regions
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import output

GIVEN = ["--account", "111122223333", "--region", "eu-west-1", "--type", "ml.g5.48xlarge", "--count", "4"]


def new(folder: Path, *arguments: str) -> int:
    return main(["--environments", str(folder), "env", "new", *arguments])


def test_the_file_passes_the_check_and_holds_the_answers(tmp_path: Path) -> None:
    assert new(tmp_path, "staging", *GIVEN) == 0
    settings = load("staging", folder=tmp_path).settings
    assert (settings.account, settings.region, settings.hyperpod.cluster_name) == (
        "111122223333",
        "eu-west-1",
        "ray-staging",
    )
    head, workers = settings.hyperpod.instance_groups
    assert (workers.type, workers.count, settings.ray.workers[0].replicas) == ("ml.g5.48xlarge", 4, 4)
    assert head.type == "ml.m5.2xlarge"
    assert settings.network.availability_zone_ids == ["euw1-az1", "euw1-az2"]
    assert load("staging", folder=tmp_path).warnings == []
    assert main(["--environments", str(tmp_path), "env", "check", "staging"]) == 0


def test_a_second_environment_of_the_same_account_and_region_passes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        assert new(tmp_path, name, *GIVEN) == 0
    assert main(["--environments", str(tmp_path), "env", "check"]) == 0


def test_every_flag_reaches_the_file(tmp_path: Path) -> None:
    role = "arn:aws:iam::111122223333:role/Admin"
    more = ["--zones", "euw1-az3, euw1-az1", "--capacity-gib", "2400", "--delete-data", "--admin-role", role]
    assert new(tmp_path, "staging", *GIVEN, *more) == 0
    settings = load("staging", folder=tmp_path).settings
    assert settings.network.availability_zone_ids == ["euw1-az3", "euw1-az1"]
    assert (settings.storage.capacity_gib, settings.storage.on_destroy) == (2400, "delete")  # type: ignore[union-attr]
    assert settings.eks.admin_role_arns == [role]


def test_a_region_without_clusters_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for region in sorted(regions.without_cluster()):
        assert new(tmp_path, "b", *GIVEN[:2], "--region", region, "--type", "ml.g6.xlarge", "--count", "1") == 2
        assert f"region: '{region}'. Expected one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("region", "zones"),
    [
        ("us-west-1", ("usw1-az1", "usw1-az3")),
        ("us-east-1", ("use1-az1", "use1-az2")),
        ("ca-central-1", ("cac1-az1", "cac1-az2")),
    ],
)
def test_the_zones_of_a_new_file_are_those_that_eks_accepts(region: str, zones: tuple[str, str]) -> None:
    assert new_file.default_zones(region) == zones


def test_a_type_for_the_head_is_one_that_the_region_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {regions.offers(region, regions.head_type(region)) for region in regions.regions()} == {True}
    monkeypatch.setattr(regions, "HEAD_TYPES", ("ml.p5e.48xlarge",))
    with pytest.raises(regions.NoHeadTypeError, match="no type for Ray's head in us-west-2"):
        regions.head_type("us-west-2")


@pytest.mark.parametrize("region", regions.regions())
def test_each_offered_type_of_each_region_gives_a_valid_file(region: str) -> None:
    types = regions.accelerated(region)
    assert types or region == "ap-southeast-4"  # it has Neuron devices only, which the image does not serve
    for name in types:
        answers = new_file.Answers(
            name="x",
            account="111122223333",
            region=region,
            zones=new_file.default_zones(region),
            head_type=regions.head_type(region),
            instance_type=name,
            count=2,
        )
        parse(new_file.text(answers), name="x", path=Path("x.yaml"))


def test_an_existing_file_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "staging.yaml").write_text("mine")
    assert new(tmp_path, "staging", *GIVEN) == 2
    assert (tmp_path / "staging.yaml").read_text() == "mine"
    assert "staging.yaml exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["b", *GIVEN[:1], "11", *GIVEN[2:]], "account: '11'"),
        (["Bad", *GIVEN], "cannot name an environment"),
        (
            ["b", *GIVEN[:4], "--type", "ml.p5.48xlarg", "--count", "1"],
            "Expected an accelerated type that eu-west-1 offers",
        ),
        (["b", *GIVEN[:2], "--region", "mars-1", *GIVEN[4:]], "region: 'mars-1'. Expected one of"),
        (["b", *GIVEN[:2]], "--region is missing"),
        ([], "no name"),
        (["b", *GIVEN, "--zones", "usw2-az1,usw2-az2"], "nothing was written"),
    ],
)
def test_bad_answers_write_nothing(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(tmp_path, *arguments) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("instance_type", "count", "words"),
    [("ml.p5.48xlarge", "8", "; one pays from 53 nodes on"), ("ml.p5.48xlarge", "1", "; one pays from 53 nodes on"),
     ("ml.g4dn.xlarge", "2", ": `hyperpod-ray plan` says if it pays")],
)  # fmt: skip
def test_the_file_says_from_how_many_nodes_a_spare_pays(
    tmp_path: Path, instance_type: str, count: str, words: str
) -> None:
    """53 for eight P5 nodes, as environments/prod.yaml and its plan say."""
    where = ["--account", "111122223333", "--region", "us-west-2", "--type", instance_type, "--count", count]
    assert new(tmp_path, "a", *where) == 0
    assert f"a node more than `replicas` is a spare{words}\n" in (tmp_path / "a.yaml").read_text()


def test_a_terminal_is_asked_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("111122223333\n\nus-west-1\nml.g4dn.xlarge\n3\n"))
    assert new(tmp_path, "asked") == 0
    asked = capsys.readouterr().err
    assert "ml.g4dn.xlarge" in asked
    assert "ml.p4d.24xlarge" not in asked  # not offered in us-west-1
    assert load("asked", folder=tmp_path).settings.hyperpod.instance_groups[1].count == 3


def test_types_of_a_region_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "new", "--list-types", "--region", "us-west-2"]) == 0
    listed = capsys.readouterr().out.split()
    assert "ml.p5en.48xlarge" in listed
    assert "ml.m5.2xlarge" not in listed


def test_the_catalogue_is_what_cloudformation_accepts() -> None:
    import json

    import cfnlint

    from hyperpod_ray.core.common_plan import catalogue

    folder = Path(cfnlint.__file__).parent / "data" / "schemas" / "extensions" / "aws_sagemaker_cluster"
    data = json.loads((folder / "instancetype_enum.json").read_text())
    accepted = {region: set(row["enum"]) for region, row in data.items() if region != "description"}
    assert regions.regions() == sorted(set(accepted) - regions.without_cluster())
    for region in regions.regions():
        types = accepted[region]
        assert {name for name in catalogue() if regions.offers(region, name)} == types & set(catalogue()), region
