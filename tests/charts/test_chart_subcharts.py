"""Sub-charts by name: folders and archives, as Helm loads them; one of each, or a refusal."""

from __future__ import annotations

import io
import tarfile

import pytest
import yaml

from hyperpod_ray.charts import subcharts
from hyperpod_ray.charts.errors import ChartError

ABOUT = b"name: parent\nversion: 1.0.0\ndependencies:\n- name: a\n  version: 1\n- name: b\n  version: 2\n"


def packed(name: str, *, folder: str = "") -> bytes:
    """As `helm package` writes a chart: its files below a folder of its name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for path, content in (("Chart.yaml", f"name: {name}\n"), ("charts/deep/Chart.yaml", "name: deep\n")):
            info = tarfile.TarInfo(f"{folder or name}/{path}")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


TREE = {
    "Chart.yaml": ABOUT,
    "templates/x.yaml": b"x",
    "charts/a/Chart.yaml": b"name: a\n",
    "charts/a/templates/x.yaml": b"x",
    "charts/a/charts/inner/Chart.yaml": b"name: inner\n",
    "charts/ab/Chart.yaml": b"name: other\n",
    "charts/b-2.0.0.tgz": packed("b"),
    "charts/c.tar.gz": packed("c", folder="folder"),
    "charts/README.md": b"",
}


def test_each_sub_chart_is_known_by_the_name_that_it_gives_itself() -> None:
    """https://helm.sh/docs/topics/charts/#managing-dependencies-manually-via-the-charts-directory"""
    assert subcharts.where_each_is(TREE) == {
        "a": ["charts/a"], "other": ["charts/ab"], "b": ["charts/b-2.0.0.tgz"], "c": ["charts/c.tar.gz"],
    }  # fmt: skip


REMOVED = {
    "a": {"charts/a/Chart.yaml", "charts/a/templates/x.yaml", "charts/a/charts/inner/Chart.yaml"},
    "b": {"charts/b-2.0.0.tgz"},
    "other": {"charts/ab/Chart.yaml"},
}


@pytest.mark.parametrize("name", REMOVED)
def test_a_sub_chart_is_taken_out_with_the_dependency_on_it(name: str) -> None:
    kept = subcharts.remove(TREE, name, where="charts.parent")
    assert set(TREE) - set(kept) == REMOVED[name]
    about = yaml.safe_load(kept["Chart.yaml"])
    assert [dependency["name"] for dependency in about["dependencies"]] == [each for each in "ab" if each != name]
    assert (about["name"], about["version"], list(about)) == ("parent", "1.0.0", ["name", "version", "dependencies"])
    assert {path: kept[path] for path in kept if path != "Chart.yaml"} == {
        path: data for path, data in TREE.items() if path in kept and path != "Chart.yaml"
    }


def test_a_dependency_that_is_not_there_yet_is_taken_out() -> None:
    kept = subcharts.remove({"Chart.yaml": ABOUT}, "b", where="charts.parent")
    assert [dependency["name"] for dependency in yaml.safe_load(kept["Chart.yaml"])["dependencies"]] == ["a"]


@pytest.mark.parametrize(
    ("tree", "names"),
    [(TREE, "a, b, c, other"), ({"Chart.yaml": ABOUT}, "a, b"), ({"Chart.yaml": b"name: x\n"}, "none")],
    ids=["some", "dependencies alone", "none"],
)
def test_what_is_no_sub_chart_is_refused(tree: dict[str, bytes], names: str) -> None:
    with pytest.raises(ChartError) as refused:
        subcharts.remove(tree, "x", where="charts.parent")
    assert refused.value.what == "charts.parent.without: no sub-chart 'x'"
    assert refused.value.expected == f"one of {names}"
    assert refused.value.fix == "correct `without` in the lock"


def test_the_copies_that_a_chart_carries_give_way_to_the_locked_one() -> None:
    kept = subcharts.without_archive(TREE, "a")
    assert set(TREE) - set(kept) == REMOVED["a"]
    assert kept["Chart.yaml"] == ABOUT, "the dependency stays"
    assert subcharts.without_archive(TREE, "x") == TREE


TWICE = {**TREE, "charts/b/Chart.yaml": b"name: b\n"}
SHADOWED: dict[str, tuple[dict[str, bytes], set[str]]] = {
    "one folder, one archive": (TWICE, {"charts/b-2.0.0.tgz"}),
    "one folder, two archives": (
        {**TWICE, "charts/b-1.tgz": packed("b")}, {"charts/b-2.0.0.tgz", "charts/b-1.tgz"},
    ),
    "two archives": ({**TREE, "charts/b-1.tgz": packed("b")}, set()),
    "two folders and an archive": ({**TWICE, "charts/bb/Chart.yaml": b"name: b\n"}, set()),
    "each once": (TREE, set()),
}  # fmt: skip


@pytest.mark.parametrize("case", SHADOWED)
def test_a_folder_counts_more_than_an_archive_of_its_name(case: str) -> None:
    tree, gone = SHADOWED[case]
    kept = subcharts.without_shadowed_archives(tree)
    assert set(tree) - set(kept) == gone


def test_a_name_that_is_there_twice_is_refused() -> None:
    subcharts.refuse_duplicates(TREE, where="charts.parent")
    with pytest.raises(ChartError) as refused:
        subcharts.refuse_duplicates(TWICE, where="charts.parent")
    assert refused.value.what == (
        "charts.parent: sub-chart 'b' occurs 2 times (charts/b, charts/b-2.0.0.tgz)"
    )  # fmt: skip
    assert refused.value.expected == "one: Helm would use any of them"
    assert refused.value.fix == "lock a version of the chart that carries it once"


BROKEN = {
    b"a: [": "charts/a/Chart.yaml: Chart.yaml is not YAML: while parsing a flow node",
    b"[1]": "charts/a/Chart.yaml: no usable Chart.yaml",
    b"": "charts/a/Chart.yaml: no usable Chart.yaml",
}


@pytest.mark.parametrize("content", BROKEN)
def test_a_chart_that_says_nothing_of_itself_is_refused(content: bytes) -> None:
    with pytest.raises(ChartError) as refused:
        subcharts.where_each_is({"charts/a/Chart.yaml": content})
    assert refused.value.what.startswith(BROKEN[content]) and "\n" not in refused.value.what
    assert (refused.value.expected, refused.value.fix) == ("a chart", "correct the source in the lock")
