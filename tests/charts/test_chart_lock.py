"""The lock file: what it may say, and that a digest is written without touching anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.charts.lock import Lock, record

PROJECT = Path(__file__).resolve().parents[2]
DIGEST = "ab" * 32
TEXT = """# kept
folder: charts
charts:
  one:   # kept too
    chart: one
    version: 1.0.0
    source: {repository: https://example.com/charts}
    sha256:   # to come
  two:
    chart: two
    version: v2.0.0
    source:
      git: https://example.com/two.git
      commit: 0123456789012345678901234567890123456789
      path: charts/two
    sha256: null
    sub_charts:
      - {chart: three, version: 3.0.0, sha256: , repository: https://example.com/charts}
"""


def write(folder: Path, text: str = TEXT) -> Path:
    path = folder / "charts.lock.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "file", ["hyperpod_ray/locks/charts.lock.yaml", "hyperpod_ray_sandbox/charts/charts.lock.yaml"]
)
def test_the_projects_own_locks_are_good(file: str) -> None:
    lock = Lock.read(PROJECT / file)
    assert lock.chart("kuberay-operator", version="1.7.0").chart == "kuberay-operator"
    assert lock.chart("hyperpod-dependencies", version="0.1.0").chart == "hyperpod-helm-chart"


def test_remote_sources_are_pinned() -> None:
    chart = Lock.read(PROJECT / "hyperpod_ray/locks/charts.lock.yaml").charts["hyperpod-dependencies"]
    assert chart.source.commit == "011ca927123e02b35a399935bbb3ab1905fe33c7"
    assert {(sub.chart, sub.version) for sub in chart.sub_charts} == {
        ("nvidia-device-plugin", "0.16.1"),
        ("aws-efa-k8s-device-plugin", "0.5.20"),
    }


def test_another_version_than_the_environments_is_refused(tmp_path: Path) -> None:
    lock = Lock.read(write(tmp_path))
    with pytest.raises(ChartError, match=r"version: 1\.0\.0\. Expected 1\.1\.0.*hyperpod-ray charts fetch"):
        lock.chart("one", version="1.1.0")
    with pytest.raises(ChartError, match=r"charts\.four: missing\. Expected one of one, two"):
        lock.chart("four", version="1.0.0")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1.0.0", "version: latest", r"charts\.one\.version: .*got 'latest'"),
        ("https://example.com/charts}\n    sha256:   #", "http://example.com/charts}\n    sha256:   #", "repository"),
        ("{repository: https://example.com/charts}", "{}", "exactly one of repository, git, folder"),
        ("commit: 0123456789012345678901234567890123456789", "commit: '0123456'", "commit"),
        ("path: charts/two", "path: ../two", "path"),
        ("sha256: null", "sha256: abc", "sha256"),
        ("chart: one\n", "chart: ../one\n", "chart"),
        ("folder: charts", "folder: /etc", "folder"),
        ("    chart: two\n", "    chart: two\n    typo: 1\n", "typo"),
        ("charts:\n", "charts: [\n", "not YAML"),
    ],
)
def test_bad_locks_are_one_located_message(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in TEXT
    with pytest.raises(ChartError, match=said) as caught:
        Lock.read(write(tmp_path, TEXT.replace(old, new, 1)))
    assert str(tmp_path / "charts.lock.yaml") in str(caught.value)


def test_a_lock_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match="cannot be read: No such file"):
        Lock.read(tmp_path / "charts.lock.yaml")


def test_record_writes_one_digest_and_keeps_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path)
    record(path, ["charts", "one"], DIGEST)
    record(path, ["charts", "two", "sub_charts", 0], DIGEST)
    record(path, ["charts", "two"], DIGEST)
    read = Lock.read(path).charts
    assert (read["one"].sha256, read["two"].sha256, read["two"].sub_charts[0].sha256) == (DIGEST, DIGEST, DIGEST)
    text = path.read_text(encoding="utf-8")
    for comment in ("# kept\n", "# kept too", "# to come"):
        assert comment in text
    before, after = yaml.safe_load(TEXT), yaml.safe_load(text)
    for part in (after["charts"]["one"], after["charts"]["two"], after["charts"]["two"]["sub_charts"][0]):
        part["sha256"] = None
    assert after == before
    assert len(text.splitlines()) == len(TEXT.splitlines())


def test_record_never_changes_a_digest(tmp_path: Path) -> None:
    path = write(tmp_path)
    record(path, ["charts", "one"], DIGEST)
    text = path.read_text(encoding="utf-8")
    with pytest.raises(ChartError, match="recorded already"):
        record(path, ["charts", "one"], "cd" * 32)
    assert path.read_text(encoding="utf-8") == text


def test_record_wants_a_place(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT.replace("    sha256:   # to come\n", ""))
    with pytest.raises(ChartError, match="add an empty `sha256:`"):
        record(path, ["charts", "one"], DIGEST)
