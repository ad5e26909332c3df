"""Files that strangers wrote without knowing the code: every broken one is reported, every valid one is taken."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER, EnvironmentFileError, Problem, load, parse
from tests.support import forked

HERE = Path(__file__).parent
ROWS: dict[str, dict[str, str]] = yaml.safe_load((HERE / "broken.yaml").read_text(encoding="utf-8"))
WORDS = {"error": {"error"}, "warning": {"error", "warning"}, "error or warning": {"error", "warning"},
         "error or accepted": {"error", "warning", "accepted"}, "warning or accepted": {"error", "warning", "accepted"},
         "none": {"accepted", "warning"}}  # fmt: skip
PROD = (FOLDER / "prod.yaml").read_text(encoding="utf-8")


def judged(name: str, folder: Path) -> list[Problem]:
    try:
        return load(name, folder=folder).warnings
    except EnvironmentFileError as error:
        return [*error.problems, *error.warnings]


def checked(name: str, tmp_path: Path) -> list[Problem]:
    """The file alone in its folder, so that the others are no siblings."""
    (tmp_path / "env.yaml").write_bytes((HERE / "broken" / f"{name}.yaml").read_bytes())
    return judged("env", tmp_path)


@pytest.mark.parametrize("name", ROWS)
def test_a_strangers_file(name: str, tmp_path: Path) -> None:
    row, said = ROWS[name], checked(name, tmp_path)
    severities = {problem.severity for problem in said}
    verdict = "error" if "error" in severities else "warning" if severities else "accepted"
    assert verdict == row["verdict"], [str(problem) for problem in said]
    if said:
        assert row["at"] in {problem.path for problem in said if problem.severity == verdict}, [str(p) for p in said]
        assert all(problem.line >= 1 for problem in said)
    assert verdict in WORDS[row["severity"]] or row.get("because"), "what differs from the expectation has a reason"


def test_there_are_enough() -> None:
    broken = [row for row in ROWS.values() if row["kind"] == "broken"]
    assert len(broken) > 300
    assert len([row for row in ROWS.values() if row["kind"] == "valid"]) >= 30
    assert len([row for row in broken if row["severity"] == "error" and row["verdict"] != "error"]) <= 4
    assert {path.stem for path in (HERE / "broken").glob("*.yaml")} == set(ROWS)


# --- what is no plain file -------------------------------------------------------------------------------------------


def limited(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    """`env check` in a process of its own, which a device or a pipe must not hold up."""
    return forked.text(forked.command("--environments", str(folder), "env", "check", name))


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_file_without_an_end_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "env.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    done = limited(tmp_path, "env")
    assert done.returncode == 2
    assert "is a device, a pipe or a socket" in done.stderr


def test_links(tmp_path: Path) -> None:
    inside, outside = tmp_path / "environments", tmp_path / "elsewhere.yaml"
    inside.mkdir()
    outside.write_text(PROD)
    (inside / "out.yaml").symlink_to(outside)
    (inside / "gone.yaml").symlink_to(inside / "nothing.yaml")
    (inside / "prod.yaml").write_text(PROD)
    (inside / "same.yaml").symlink_to(inside / "prod.yaml")
    (only,) = judged("out", inside)
    assert "is a link out of the folder" in only.message
    assert "no environment 'gone'" in judged("gone", inside)[0].message
    # a link inside the folder is a second environment of the same names
    assert {problem.path for problem in judged("same", inside)} == {"hyperpod.cluster_name"}


@pytest.mark.parametrize(
    "text",
    ["a: " * 1 + "{a: " * 5000 + "1" + "}" * 5000, "x" * 200_000, "#" * 1_000_001],
    ids=["deep maps", "long line", "large"],
)
def test_large_files(text: str, tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text(text)
    assert any(problem.severity == "error" for problem in judged("env", tmp_path))


# --- beside others ---------------------------------------------------------------------------------------------------


def beside(tmp_path: Path, **edits: Any) -> set[str]:
    """Paths of the findings of prod.yaml beside a copy of it with top-level keys replaced."""
    (tmp_path / "prod.yaml").write_text(PROD)
    data = yaml.safe_load(PROD)
    for path, value in edits.items():
        here = data
        *way, last = path.split("__")
        for part in way:
            here = here.setdefault(part, {})
        here[last] = value
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(data))
    return {problem.path for problem in judged("prod", tmp_path)}


def test_two_environments_with_equal_names(tmp_path: Path) -> None:
    name = yaml.safe_load(PROD)["hyperpod"]["cluster_name"]
    assert beside(tmp_path) == {"hyperpod.cluster_name"}
    assert beside(tmp_path, hyperpod__cluster_name=name.upper()) == {"hyperpod.cluster_name"}
    assert beside(tmp_path, hyperpod__cluster_name="another") == set(), "repositories are named by the environment"
    assert beside(tmp_path, account="111122223333") == set()
    taken = {"hyperpod__cluster_name": "another", "image__repository_name": "ray-prod"}
    assert beside(tmp_path, **taken) == {"image.repository_name"}, "the name that prod.yaml does not write"
    # the other way round: other.yaml names the repository that prod.yaml has by default, with and without a section
    here = {problem.path for problem in judged("other", tmp_path)}
    assert here == {"image.repository_name"}
    without = yaml.safe_load(PROD)
    del without["image"]
    (tmp_path / "prod.yaml").write_text(yaml.safe_dump(without))
    assert {problem.path for problem in judged("other", tmp_path)} == here
    assert beside(tmp_path, **taken, image__repository_exists=True) == set()
    assert beside(tmp_path, **taken, account="111122223333") == set()


def test_a_broken_sibling_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_text(PROD)
    (tmp_path / "broken.yaml").write_text("a: [\n")
    (tmp_path / "list.yaml").write_bytes(b"\xff\xfe- a")
    assert judged("prod", tmp_path) == []


def test_check_names_the_files_that_it_skips(tmp_path: Path) -> None:
    for file in ("prod.yaml", "x.yml", "Prod.yaml", "a_b.yaml"):
        (tmp_path / file).write_text(PROD)
    done = forked.text(forked.command("--environments", str(tmp_path), "env", "check"))
    for file in ("x.yml", "Prod.yaml", "a_b.yaml"):
        assert f"{file}: not checked" in done.stderr
    assert "ok prod" in done.stdout


def test_folders_and_locks_are_there() -> None:
    dev = (FOLDER / "dev.yaml").read_text(encoding="utf-8")
    found = {}
    for edit in (
        {"image": {"folder": "no-such-folder"}},
        {"image": {"folder": "docs"}},
        {"helm": {"lock_file": "none.lock.yaml"}},
        {"helm": {"lock_file": "mkdocs.yml.yaml"}},
        {"helm": {"kuberay_operator": "1.6.9"}},
        {"helm": {"lock_file": "images.lock.yaml"}},
    ):
        text = yaml.safe_dump({**yaml.safe_load(dev), **edit})
        with pytest.raises(EnvironmentFileError) as caught:
            parse(text, name="dev", path=Path("dev.yaml"))
        found[str(edit)] = {problem.path: problem.message for problem in caught.value.problems}
    paths = [set(one) for one in found.values()]
    assert paths == [{"image.folder"}, {"image.folder"}, {"helm.lock_file"}, {"helm.lock_file"},
                     {"helm.kuberay_operator"}, {"helm.lock_file"}], found  # fmt: skip


@pytest.mark.parametrize("version", ["1.31", "1.32", "1.33", "1.34", "1.35"])
def test_an_existing_cluster_of_any_version_that_hyperpod_supports(version: str) -> None:
    text = (FOLDER / "examples" / "existing-cluster.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    data["eks"]["version"] = version
    assert parse(yaml.safe_dump(data), name="x", path=Path("x.yaml")).settings.eks.version == version


def test_no_nodes_yet_with_the_checks_of_a_full_group() -> None:
    data = yaml.safe_load((FOLDER / "dev.yaml").read_text(encoding="utf-8"))
    workers = data["hyperpod"]["instance_groups"][-1]
    workers.pop("min_count", None)
    workers |= {"count": 0, "deep_health_checks": ["InstanceStress", "InstanceConnectivity"]}
    for worker in data["ray"]["workers"]:
        worker |= {"replicas": 0}
        for bound in ("min_replicas", "max_replicas"):
            worker.pop(bound, None)
    assert parse(yaml.safe_dump(data), name="x", path=Path("x.yaml")).settings
