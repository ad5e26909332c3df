"""Charts fetched for real: from a Helm repository over HTTP, a git repository, a mirror; and how that can go wrong."""

from __future__ import annotations

import hashlib
import http.server
import io
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hyperpod_ray.charts import store
from hyperpod_ray.charts.errors import ChartError, ChartMissingError
from hyperpod_ray.charts.lock import Lock, LockedChart


def chart_archive(name: str, version: str, *, extra: bytes = b"") -> bytes:
    """A chart as a publisher would upload it: compressed, with times."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        for path, data in {"Chart.yaml": f"name: {name}\nversion: {version}\n".encode(), "values.yaml": extra}.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime = len(data), 1_700_000_000
            file.addfile(member, io.BytesIO(data))
    return out.getvalue()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Repository:
    """A Helm repository on loopback whose files can be changed while it runs."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.asked: list[str] = []
        repository = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.asked.append(self.path)
                data = repository.files.get(self.path)
                if data is None:
                    self.send_error(404)
                    return
                if data.startswith(b"redirect:"):
                    self.send_response(302)
                    self.send_header("Location", data.removeprefix(b"redirect:").decode())
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if self.path in repository.cut else data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def publish(self, name: str, version: str, *, extra: bytes = b"", digest: str | None = "right") -> bytes:
        data = chart_archive(name, version, extra=extra)
        index = yaml.safe_load(self.files.get("/index.yaml", b"entries: {}"))
        entry = {"version": version, "urls": [f"archives/{name}-{version}.tgz"]}
        if digest is not None:
            entry["digest"] = sha(data) if digest == "right" else digest
        index["entries"].setdefault(name, []).insert(0, entry)
        self.files["/index.yaml"] = yaml.safe_dump(index).encode()
        self.files[f"/archives/{name}-{version}.tgz"] = data
        return data


@pytest.fixture
def repository() -> Iterator[Repository]:
    made = Repository()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(store.MIRROR, raising=False)


def lock(folder: Path, url: str, *, sha256: str = "") -> LockedChart:
    """Write a lock of one chart from a repository and read it."""
    path = folder / "charts.lock.yaml"
    path.write_text(
        "folder: charts\ncharts:\n  op:\n    chart: op\n    version: 1.0.0\n"
        f"    source: {{repository: '{url}'}}\n    sha256: {sha256}\n",
        encoding="utf-8",
    )
    return read(folder)


def read(folder: Path) -> LockedChart:
    return Lock.read(folder / "charts.lock.yaml").charts["op"]


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "charts").rglob("*")) if (folder / "charts").exists() else []


class TestRepository:
    def test_first_fetch_records_and_keeps_the_published_bytes(self, repository: Repository, tmp_path: Path) -> None:
        data = repository.publish("op", "1.0.0")
        done = store.fetch(lock(tmp_path, repository.url))
        assert (done.done, done.recorded) == ("fetched", ("charts.op.sha256",))
        locked = read(tmp_path)
        assert locked.sha256 == sha(data)
        assert store.locate(locked).read_bytes() == data
        assert left_over(tmp_path) == ["op-1.0.0.tgz"]

    def test_second_fetch_asks_nobody(self, repository: Repository, tmp_path: Path) -> None:
        repository.publish("op", "1.0.0")
        store.fetch(lock(tmp_path, repository.url))
        repository.asked.clear()
        assert store.fetch(read(tmp_path)).done == "kept"
        assert repository.asked == []

    def test_another_content_under_the_same_version_is_refused(self, repository: Repository, tmp_path: Path) -> None:
        first = repository.publish("op", "1.0.0")
        store.fetch(lock(tmp_path, repository.url))
        (tmp_path / "charts" / "op-1.0.0.tgz").unlink()
        second = repository.publish("op", "1.0.0", extra=b"evil: true")
        before = (tmp_path / "charts.lock.yaml").read_text()
        with pytest.raises(
            ChartError, match=f"got {sha(second)}; nothing was replaced. Expected {sha(first)}, which is locked"
        ):
            store.fetch(read(tmp_path))
        assert left_over(tmp_path) == []
        assert (tmp_path / "charts.lock.yaml").read_text() == before

    def test_a_refused_download_leaves_what_is_there(self, repository: Repository, tmp_path: Path) -> None:
        wanted = repository.publish("op", "1.0.0")
        locked = lock(tmp_path, repository.url, sha256=sha(b"other"))
        (tmp_path / "charts").mkdir()
        locked.path.write_bytes(b"what was there")
        with pytest.raises(ChartError, match=sha(wanted)):
            store.fetch(locked)
        assert locked.path.read_bytes() == b"what was there"

    def test_index_and_download_must_agree_at_the_first_fetch(self, repository: Repository, tmp_path: Path) -> None:
        repository.publish("op", "1.0.0", digest="0" * 64)
        with pytest.raises(ChartError, match=r"Expected 0000.*index states"):
            store.fetch(lock(tmp_path, repository.url))
        assert read(tmp_path).sha256 is None
        assert left_over(tmp_path) == []

    def test_an_index_without_digests_will_do(self, repository: Repository, tmp_path: Path) -> None:
        repository.publish("op", "1.0.0", digest=None)
        assert store.fetch(lock(tmp_path, repository.url)).done == "fetched"

    @pytest.mark.parametrize("path", ["/archives/op-1.0.0.tgz", "/index.yaml"])
    def test_a_download_that_is_cut_short_never_counts(self, path: str, repository: Repository, tmp_path: Path) -> None:
        repository.publish("op", "1.0.0")
        repository.cut.add(path)
        with pytest.raises(ChartError, match="cut short"):
            store.fetch(lock(tmp_path, repository.url))
        assert read(tmp_path).sha256 is None
        assert left_over(tmp_path) == []
        repository.cut.clear()
        assert store.fetch(read(tmp_path)).done == "fetched"

    def test_the_archive_must_be_the_chart_it_is_called(self, repository: Repository, tmp_path: Path) -> None:
        repository.publish("op", "1.0.0", digest=None)
        repository.files["/archives/op-1.0.0.tgz"] = chart_archive("op", "6.6.6")
        with pytest.raises(ChartError, match=r"Chart\.yaml is of op 6\.6\.6\. Expected op 1\.0\.0"):
            store.fetch(lock(tmp_path, repository.url))
        repository.files["/archives/op-1.0.0.tgz"] = chart_archive("other", "1.0.0")
        with pytest.raises(ChartError, match="no folder 'op'"):
            store.fetch(read(tmp_path))

    def test_versions_and_charts_that_do_not_exist(self, repository: Repository, tmp_path: Path) -> None:
        repository.publish("op", "0.9.0")
        with pytest.raises(ChartError, match=r"no version 1\.0\.0 of op\. Expected a version it has, newest: 0\.9\.0"):
            store.fetch(lock(tmp_path, repository.url))
        repository.files["/index.yaml"] = b"entries: {}"
        with pytest.raises(ChartError, match="no chart 'op'"):
            store.fetch(read(tmp_path))
        repository.files.clear()
        with pytest.raises(ChartError, match="answered 404"):
            store.fetch(read(tmp_path))

    def test_a_redirect_may_not_leave_https(self, repository: Repository, tmp_path: Path) -> None:
        repository.publish("op", "1.0.0")
        secret = tmp_path / "secret"
        secret.write_bytes(chart_archive("op", "1.0.0"))
        for target in (f"file://{secret}", "http://example.invalid/op.tgz", "ftp://example.invalid/op.tgz"):
            repository.files["/archives/op-1.0.0.tgz"] = f"redirect:{target}".encode()
            with pytest.raises(ChartError, match=r"Expected https://|not allowed"):
                store.fetch(lock(tmp_path, repository.url))
            assert left_over(tmp_path) == []

    def test_size_is_limited(self, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        repository.publish("op", "1.0.0")
        monkeypatch.setattr("hyperpod_ray.charts.download.fetch.__kwdefaults__", {"limit": 100})
        with pytest.raises(ChartError, match="more than 100 bytes"):
            store.fetch(lock(tmp_path, repository.url))

    def test_nobody_there(self, tmp_path: Path) -> None:
        with pytest.raises(ChartError, match="CHARTS_MIRROR"):
            store.fetch(lock(tmp_path, "http://127.0.0.1:9/charts"))


class TestLocate:
    def test_missing_says_what_to_run(self, tmp_path: Path) -> None:
        with pytest.raises(
            ChartMissingError,
            match=r"charts\.op: op-1\.0\.0\.tgz is missing\. Expected it in charts/\. Fix: run `hyperpod-ray charts",
        ):
            store.locate(lock(tmp_path, "https://example.com"))

    def test_a_chart_without_digest_is_never_deployed(self, tmp_path: Path) -> None:
        locked = lock(tmp_path, "https://example.com")
        (tmp_path / "charts").mkdir()
        locked.path.write_bytes(chart_archive("op", "1.0.0"))
        with pytest.raises(
            ChartError, match=r"sha256: empty.*run `hyperpod-ray charts fetch` and commit charts\.lock\.yaml"
        ):
            store.locate(locked)

    def test_a_tampered_archive_is_never_deployed(self, tmp_path: Path) -> None:
        data = chart_archive("op", "1.0.0")
        locked = lock(tmp_path, "https://example.com", sha256=sha(data))
        (tmp_path / "charts").mkdir()
        locked.path.write_bytes(data + b"\0")
        with pytest.raises(ChartError, match=f"Expected {sha(data)}. Fix: remove the file"):
            store.locate(locked)

    def test_unpacked_is_mended_when_it_was_changed(self, tmp_path: Path) -> None:
        data = chart_archive("op", "1.0.0")
        locked = lock(tmp_path, "https://example.com", sha256=sha(data))
        (tmp_path / "charts").mkdir()
        locked.path.write_bytes(data)
        folder = store.unpack(locked)
        assert (folder / "Chart.yaml").read_text() == "name: op\nversion: 1.0.0\n"
        made = (folder / "Chart.yaml").stat().st_ino
        assert (store.unpack(locked) / "Chart.yaml").stat().st_ino == made
        (folder / "Chart.yaml").write_text("name: evil\n")
        (folder / "more.yaml").write_text("evil: true\n")
        folder = store.unpack(locked)
        assert (folder / "Chart.yaml").read_text() == "name: op\nversion: 1.0.0\n"
        assert sorted(path.name for path in folder.iterdir()) == ["Chart.yaml", "values.yaml"]
        assert [path.name for path in folder.parent.parent.iterdir()] == ["op-1.0.0"]


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path: Path) -> tuple[Path, str]:
    """A git repository with a chart below a folder, and the commit before its last."""
    folder = tmp_path / "upstream"
    chart = folder / "helm" / "Chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("name: op\nversion: 1.0.0\n")
    (chart / "templates" / "a.yaml").write_text("a: 1\n")
    (folder / "README.md").write_text("not part of the chart\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    commit = git(folder, "rev-parse", "HEAD")
    (chart / "templates" / "a.yaml").write_text("a: 2\n")
    git(folder, "commit", "-q", "-am", "two")
    return folder, commit


def git_lock(
    tmp_path: Path, source: tuple[Path, str], repository: Repository, *, path: str = "helm/Chart"
) -> LockedChart:
    folder, commit = source
    (tmp_path / "charts.lock.yaml").write_text(
        f"folder: charts\ncharts:\n  op:\n    chart: op\n    version: 1.0.0\n"
        f"    source: {{git: 'file://{folder}', commit: '{commit}', path: {path}}}\n    sha256:\n"
        f"    sub_charts:\n      - chart: sub\n        version: v2.0.0\n        repository: {repository.url}\n"
        f"        sha256:\n",
        encoding="utf-8",
    )
    return read(tmp_path)


class TestGit:
    def test_the_commit_is_packaged_with_its_sub_charts(
        self, source: tuple[Path, str], repository: Repository, tmp_path: Path
    ) -> None:
        sub = repository.publish("sub", "v2.0.0")
        done = store.fetch(git_lock(tmp_path, source, repository))
        assert done.recorded == ("charts.op.sub_charts[0].sha256", "charts.op.sha256")
        locked = read(tmp_path)
        assert locked.sub_charts[0].sha256 == sha(sub)
        folder = store.unpack(locked)
        assert (folder / "templates" / "a.yaml").read_text() == "a: 1\n"
        files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert files == {"Chart.yaml", "templates/a.yaml", "charts/sub/Chart.yaml", "charts/sub/values.yaml"}

    def test_packaging_again_gives_the_same_bytes(
        self, source: tuple[Path, str], repository: Repository, tmp_path: Path
    ) -> None:
        repository.publish("sub", "v2.0.0")
        store.fetch(git_lock(tmp_path, source, repository))
        locked = read(tmp_path)
        data = locked.path.read_bytes()
        shutil.rmtree(tmp_path / "charts")
        assert store.fetch(locked).recorded == ()
        assert locked.path.read_bytes() == data

    def test_a_changed_sub_chart_is_refused(
        self, source: tuple[Path, str], repository: Repository, tmp_path: Path
    ) -> None:
        repository.publish("sub", "v2.0.0")
        store.fetch(git_lock(tmp_path, source, repository))
        shutil.rmtree(tmp_path / "charts")
        repository.publish("sub", "v2.0.0", extra=b"evil: true")
        with pytest.raises(ChartError, match=r"sub_charts\[0\]\.sha256: got .* which is locked"):
            store.fetch(read(tmp_path))

    def test_a_sub_chart_that_cannot_be_had_records_nothing(
        self, source: tuple[Path, str], repository: Repository, tmp_path: Path
    ) -> None:
        locked = git_lock(tmp_path, source, repository)
        before = locked.lock_file.read_text()
        with pytest.raises(ChartError, match="404"):
            store.fetch(locked)
        assert locked.lock_file.read_text() == before
        assert left_over(tmp_path) == []

    def test_unknown_commit_and_folder(self, source: tuple[Path, str], repository: Repository, tmp_path: Path) -> None:
        repository.publish("sub", "v2.0.0")
        with pytest.raises(ChartError, match="git fetch failed"):
            store.fetch(git_lock(tmp_path, (source[0], "0" * 40), repository))
        with pytest.raises(ChartError, match="git archive failed"):
            store.fetch(git_lock(tmp_path, source, repository, path="helm/Other"))

    def test_a_link_in_the_repository_is_refused(
        self, source: tuple[Path, str], repository: Repository, tmp_path: Path
    ) -> None:
        repository.publish("sub", "v2.0.0")
        folder = source[0]
        (folder / "helm" / "Chart" / "secret").symlink_to("/etc/passwd")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "three")
        with pytest.raises(ChartError, match="link or device"):
            store.fetch(git_lock(tmp_path, (folder, git(folder, "rev-parse", "HEAD")), repository))


class TestMirror:
    def test_a_folder_with_the_packaged_charts_serves_a_closed_network(self, tmp_path: Path) -> None:
        mirror = tmp_path / "mirror"
        mirror.mkdir()
        data = chart_archive("op", "1.0.0")
        (mirror / "op-1.0.0.tgz").write_bytes(data)
        locked = lock(tmp_path, "https://example.invalid", sha256=sha(data))
        assert store.fetch(locked, mirror=f"file://{mirror}/").done == "fetched"
        assert store.locate(locked).read_bytes() == data

    def test_over_http_and_from_the_environment(
        self, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = chart_archive("op", "1.0.0")
        repository.files["/closed/op-1.0.0.tgz"] = data
        monkeypatch.setenv(store.MIRROR, f"{repository.url}/closed")
        store.fetch(lock(tmp_path, "https://example.invalid", sha256=sha(data)))
        assert repository.asked == ["/closed/op-1.0.0.tgz"]

    def test_a_mirror_is_not_trusted_more_than_the_source(self, tmp_path: Path) -> None:
        mirror = tmp_path / "mirror"
        mirror.mkdir()
        (mirror / "op-1.0.0.tgz").write_bytes(chart_archive("op", "1.0.0", extra=b"evil: true"))
        locked = lock(tmp_path, "https://example.invalid", sha256=sha(chart_archive("op", "1.0.0")))
        with pytest.raises(ChartError, match="nothing was replaced"):
            store.fetch(locked, mirror=f"file://{mirror}")
        assert left_over(tmp_path) == []

    def test_an_empty_mirror(self, tmp_path: Path) -> None:
        with pytest.raises(ChartError, match=r"op-1\.0\.0\.tgz"):
            store.fetch(lock(tmp_path, "https://example.invalid"), mirror=f"file://{tmp_path}/nothing")

    @pytest.mark.parametrize(
        "mirror", ["http://example.invalid", "ftp://example.invalid", "file://relative/x", "charts"]
    )
    def test_other_addresses_are_refused(self, mirror: str, tmp_path: Path) -> None:
        with pytest.raises(ChartError, match="Expected https:// or file:///"):
            store.fetch(lock(tmp_path, "https://example.invalid"), mirror=mirror)
