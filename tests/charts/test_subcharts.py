"""Sub-charts in a chart's files: https://helm.sh/docs/topics/charts/#chart-dependencies."""

from __future__ import annotations

import io
import tarfile

import pytest
import yaml

from hyperpod_ray.charts import subcharts
from hyperpod_ray.charts.errors import ChartError


def about(name: str, *dependencies: str) -> bytes:
    listed = [{"name": dependency, "version": "1"} for dependency in dependencies]
    return yaml.safe_dump({"name": name, "version": "1.0.0", **({"dependencies": listed} if listed else {})}).encode()


def packed(name: str, *, folder: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in (("Chart.yaml", about(name)), ("templates/a.yaml", b"a: 1\n")):
            member = tarfile.TarInfo(f"{folder or name}/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


TREE = {
    "Chart.yaml": about("top", "agent", "store"),
    "values.yaml": b"a: 1\n",
    "charts/agent/Chart.yaml": about("agent"),
    "charts/agent/charts/deep/Chart.yaml": about("deep"),
    "charts/agent/templates/a.yaml": b"a: 1\n",
    "charts/agent-tools/Chart.yaml": about("tools"),
    "charts/store-1.0.0.tgz": packed("store"),
    "templates/charts/no/Chart.yaml": about("no"),
}


def test_each_is_known_by_the_name_that_it_gives_itself() -> None:
    assert subcharts.where_each_is(TREE) == {
        "agent": ["charts/agent"], "tools": ["charts/agent-tools"], "store": ["charts/store-1.0.0.tgz"],
    }  # fmt: skip
    assert subcharts.where_each_is({"Chart.yaml": about("top")}) == {}


@pytest.mark.parametrize(
    ("name", "gone", "left"),
    [
        ("agent", {path for path in TREE if path.startswith("charts/agent/")}, ["store"]),
        ("store", {"charts/store-1.0.0.tgz"}, ["agent"]),
        ("tools", {"charts/agent-tools/Chart.yaml"}, ["agent", "store"]),
    ],
)
def test_a_removed_one_leaves_no_file_and_no_dependency(name: str, gone: set[str], left: list[str]) -> None:
    kept = subcharts.remove(TREE, name, where="top")
    assert TREE.keys() - kept.keys() == gone
    document = yaml.safe_load(kept["Chart.yaml"])
    assert [dependency["name"] for dependency in document["dependencies"]] == left
    assert document["version"] == "1.0.0"
    assert set(subcharts.without_archive(TREE, name)) == set(kept)


def test_one_that_is_a_dependency_alone_is_removed_too() -> None:
    kept = subcharts.remove({"Chart.yaml": about("top", "agent")}, "agent", where="top")
    assert yaml.safe_load(kept["Chart.yaml"])["dependencies"] == []


@pytest.mark.parametrize(("tree", "available"), [(TREE, "agent, store, tools"), ({"Chart.yaml": about("top")}, "none")])
def test_a_name_that_is_not_there_is_refused(tree: dict[str, bytes], available: str) -> None:
    words = f"top.without: no sub-chart 'agnet'. Expected one of {available}. Fix: correct `without` in the lock"
    with pytest.raises(ChartError, match=words):
        subcharts.remove(tree, "agnet", where="top")


def test_of_a_folder_and_an_archive_the_folder_stays() -> None:
    both = {**TREE, "charts/agent-0.9.tgz": packed("agent")}
    assert subcharts.without_shadowed_archives(both) == TREE
    two = {**TREE, "charts/store-0.9.tgz": packed("store")}
    assert subcharts.without_shadowed_archives(two) == two, "nobody says which of two archives is meant"
    with pytest.raises(
        ChartError, match=r"sub-chart 'store' occurs 2 times \(charts/store-0.9.tgz, charts/store-1.0.0.tgz\)"
    ):
        subcharts.refuse_duplicates(two, where="top")
    subcharts.refuse_duplicates(TREE, where="top")


@pytest.mark.parametrize("data", [b"[1]", b"", b"a: [", b"text"])
def test_a_chart_that_says_nothing_usable_of_itself_is_refused(data: bytes) -> None:
    with pytest.raises(ChartError, match=r"charts/agent/Chart.yaml: (no usable Chart.yaml|Chart.yaml is not YAML)"):
        subcharts.where_each_is({**TREE, "charts/agent/Chart.yaml": data})


def test_an_archive_is_read_whatever_its_folder_is_called() -> None:
    tree = {"Chart.yaml": about("top"), "charts/x.tgz": packed("store", folder="elsewhere")}
    assert subcharts.where_each_is(tree) == {"store": ["charts/x.tgz"]}
