"""Where a chart's bytes may come from, and what is said where they do not."""

from __future__ import annotations

import http.client
import subprocess
import tarfile
import urllib.error
from email.message import Message
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.charts import download
from hyperpod_ray.charts.errors import ChartError

ALLOWED = {
    "https://charts.example.com/x.tgz": (True, True),
    "http://127.0.0.1:8080/x.tgz": (True, True),
    "http://localhost/x.tgz": (True, True),
    "file:///srv/x.tgz": (True, False),
    "http://charts.example.com/x.tgz": (False, False),
    "http://localhost.example.com/x.tgz": (False, False),
    "file://host/srv/x.tgz": (False, False),
    "ftp://charts.example.com/x.tgz": (False, False),
    "x.tgz": (False, False),
}
"""An address, whether it is asked, and whether a redirection may lead there."""


@pytest.mark.parametrize("url", ALLOWED)
def test_only_what_is_encrypted_or_local_is_asked(url: str) -> None:
    for redirected, allowed in zip((False, True), ALLOWED[url], strict=True):
        if allowed:
            download._check(url, redirected=redirected)
            continue
        with pytest.raises(ChartError) as refused:
            download._check(url, redirected=redirected)
        assert refused.value.what == f"{url}{', after a redirection' if redirected else ''}"
        assert refused.value.expected == "https:// or file:///"
        assert refused.value.fix == "use an address that is encrypted or local"


class Opened:
    """What an opener gives: a body, and the length that its header says."""

    def __init__(self, body: bytes | Exception, length: str | None = None) -> None:
        self.body, self.headers = body, {} if length is None else {"Content-Length": length}

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def read(self, limit: int) -> bytes:
        if isinstance(self.body, Exception):
            raise self.body
        return self.body[:limit]


HEADERS = Message()
ANSWERS: dict[str, tuple[Opened, tuple[str, str, str] | None]] = {
    "whole": (Opened(b"12345", "5"), None),
    "without a length": (Opened(b"12345"), None),
    "a length that is none": (Opened(b"12345", "x"), None),
    "as much as may be": (Opened(b"1234567890"), None),
    "too much": (
        Opened(b"12345678901"), ("more than 10 bytes", "no more", "correct the address; the answer is refused"),
    ),
    "cut short": (Opened(b"123", "5"), ("cut short at 3 bytes", "5", "run the command again")),
    "cut short, as http.client says": (
        Opened(http.client.IncompleteRead(b"123", 2)), ("cut short: 3 bytes, 2 more expected", "", ""),
    ),
    "refused": (
        Opened(urllib.error.HTTPError("https://x", 404, "Not Found", HEADERS, BytesIO())),
        ("answered 404 Not Found", "an answer", "check the network; behind a closed network set CHARTS_MIRROR"),
    ),
    "no way": (Opened(urllib.error.URLError("Name or service not known.")), ("Name or service not known", "", "")),
    "an error without words": (Opened(TimeoutError()), ("TimeoutError", "", "")),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_what_arrives_is_whole_or_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, problem = ANSWERS[case]
    asked: list[tuple[str, float]] = []

    def opened(url: str, timeout: float) -> Any:
        asked.append((url, timeout))
        return answer

    def build_opener(*_: object) -> Any:
        return SimpleNamespace(open=opened)

    monkeypatch.setattr("urllib.request.build_opener", build_opener)
    if problem is None:
        assert download.fetch("https://x/a", limit=10) == answer.body
    else:
        with pytest.raises(ChartError) as refused:
            download.fetch("https://x/a", limit=10)
        what, expected, fix = problem
        assert refused.value.what == f"https://x/a: {what}"
        assert expected in ("", refused.value.expected) and fix in ("", refused.value.fix)
    assert asked == [("https://x/a", 60)]


INDEX = """
entries:
  ray:
  - {version: v2.0.0, urls: [ray-2.tgz], digest: "sha256:ab"}
  - {version: 1.5.0, urls: []}
  - {version: 1.0.0, urls: ["https://elsewhere/ray-1.tgz"], digest: cd}
  - {version: 0.9.0, urls: [old.tgz]}
"""
RELEASES: dict[str, tuple[str, str, str | None]] = {
    "v2.0.0": ("v2.0.0", "https://charts/a/ray-2.tgz", "ab"),
    "the same without v": ("2.0.0", "https://charts/a/ray-2.tgz", "ab"),
    "an address of its own": ("1.0.0", "https://elsewhere/ray-1.tgz", "cd"),
    "without a digest": ("v0.9.0", "https://charts/a/old.tgz", None),
}


def repository(monkeypatch: pytest.MonkeyPatch, index: str) -> list[str]:
    asked: list[str] = []

    def fetch(url: str, *, limit: int = 0) -> bytes:
        asked.append(url)
        return index.encode() if url.endswith("index.yaml") else url.encode()

    monkeypatch.setattr(download, "fetch", fetch)
    return asked


@pytest.mark.parametrize("case", RELEASES)
def test_a_release_of_a_repository(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://helm.sh/docs/topics/chart_repository/#the-index-file: addresses may be relative to the repository"""
    version, url, digest = RELEASES[case]
    asked = repository(monkeypatch, INDEX)
    for base in ("https://charts/a", "https://charts/a/"):
        assert download.from_repository(base, chart="ray", version=version) == (url.encode(), digest)
        assert asked[0] == "https://charts/a/index.yaml"


UNKNOWN: dict[str, tuple[str, str, str, str, str]] = {
    "another version": (
        INDEX, "1.5.0", "no version 1.5.0 of ray", "a version it has, newest: v2.0.0, 1.5.0, 1.0.0, 0.9.0",
        "correct `version` in the lock",
    ),
    "no such chart": (
        "entries: {}", "1", "no chart 'ray'", "one of its charts", "correct `chart` in the lock",
    ),
    "no index": ("[1]", "1", "no chart 'ray'", "one of its charts", "correct `chart` in the lock"),
    "no YAML": (
        "a: [", "1", "not YAML: while parsing", "the index of a Helm repository", "correct `repository` in the lock",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_a_repository_does_not_have(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index, version, what, expected, fix = UNKNOWN[case]
    repository(monkeypatch, index)
    with pytest.raises(ChartError) as refused:
        download.from_repository("https://charts/a", chart="ray", version=version)
    assert refused.value.what.startswith(f"https://charts/a/index.yaml: {what}")
    assert (refused.value.expected, refused.value.fix) == (expected, fix)


def git(*words: str, folder: Path) -> str:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    command = ["git", "-C", str(folder), *names, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_commit_of_a_git_repository(tmp_path: Path) -> None:
    git("init", "--quiet", folder=tmp_path)
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "Chart.yaml").write_text("name: x\n")
    (tmp_path / "other").write_text("x")
    git("add", ".", folder=tmp_path)
    git("commit", "--quiet", "-m", "x", folder=tmp_path)
    commit = git("rev-parse", "HEAD", folder=tmp_path)
    data = download.from_git(str(tmp_path), commit=commit, path="chart")
    with tarfile.open(fileobj=BytesIO(data)) as tar:
        assert [name for name in tar.getnames() if not name.endswith("chart")] == ["chart/Chart.yaml"]
    with pytest.raises(ChartError) as refused:
        download.from_git(str(tmp_path), commit="0" * 40, path="chart")
    assert refused.value.what.startswith(f"{tmp_path}: git fetch failed: ")
    assert refused.value.expected == "the commit of the lock"
    assert refused.value.fix == "check the network and the source in the lock"


GIT: dict[str, tuple[Any, str, str, str]] = {
    "not installed": (
        FileNotFoundError(), "git is not installed", "git on PATH, for charts from git repositories", "install git",
    ),
    "no end": (
        subprocess.TimeoutExpired("git", 1), "https://x: git did not end", "an answer in 300 s",
        "check the network, then run the command again",
    ),
    "no word": (
        SimpleNamespace(returncode=1, stderr=b"", stdout=b""), "https://x: git init failed: ?",
        "the commit of the lock", "check the network and the source in the lock",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GIT)
def test_a_git_that_does_not_work(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, what, expected, fix = GIT[case]
    asked: list[dict[str, str]] = []

    def run(command: list[str], *, env: dict[str, str], **_: object) -> Any:
        asked.append(env)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setenv("GIT_DIR", "/srv/mine")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ChartError) as refused:
        download.from_git("https://x", commit="a", path="b")
    assert (refused.value.what, refused.value.expected, refused.value.fix) == (what, expected, fix)
    (environment,) = asked
    assert {key: value for key, value in environment.items() if key.startswith("GIT_")} == {
        "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    }, "no question, and no setting of this machine"  # fmt: skip
