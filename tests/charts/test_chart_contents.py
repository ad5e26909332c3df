"""One sub-chart of each name, and what is recorded of a packaged chart: judged by the real Helm."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.charts import contents, executable, store
from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.charts.lock import Lock
from hyperpod_ray.core import Plan, environment_names, load
from hyperpod_ray.core.images import chart_images, chart_values
from tests.charts.test_chart_store import Repository, git, left_over, lock, repository, sha

__all__ = ["repository"]

PROJECT = Path(__file__).resolve().parents[2]
POD = """apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
    - {{name: main, image: "{image}"}}
"""


@pytest.fixture(scope="module", autouse=True)
def helm() -> Path:
    found = executable.helm()
    if found is None:
        pytest.skip("no helm on PATH, and none in the kubectl layer's wheel for this machine")
    return found


def archived(name: str, image: str) -> bytes:
    out = io.BytesIO()
    files = {"Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: 0.1.0\n", "templates/pod.yaml": POD}
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        for path, text in files.items():
            data = text.format(name=name, image=image).encode() if path.endswith("pod.yaml") else text.encode()
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return out.getvalue()


def upstream(folder: Path, *, archives: dict[str, bytes] | None = None) -> tuple[Path, str]:
    """A git repository with a chart shaped as AWS's: sub-charts as folders, switched by conditions, one by region."""
    chart = folder / "upstream" / "chart"
    sub = chart / "charts" / "agent"
    (sub / "templates").mkdir(parents=True)
    (chart / "charts" / "unused").mkdir()
    (chart / "charts" / "unused" / "Chart.yaml").write_text("apiVersion: v2\nname: unused-operator\nversion: 1.0.0\n")
    about = {
        "apiVersion": "v2",
        "name": "op",
        "version": "1.0.0",
        "dependencies": [
            {"name": "agent", "version": "0.1.0", "repository": "file://charts/agent", "condition": "agent.enabled"},
            {"name": "unused-operator", "version": "1.0.0", "repository": "file://charts/unused", "condition": "un.on"},
        ],
    }
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about))
    (chart / "values.yaml").write_text("global: {region: ''}\nagent: {enabled: false}\nun: {on: false}\nleft: over\n")
    (sub / "Chart.yaml").write_text("apiVersion: v2\nname: agent\nversion: 0.1.0\n")
    (sub / "values.yaml").write_text("image: {repository: '', tag: v1}\nlabels: {}\n")
    (sub / "templates" / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: agent}\nspec:\n  containers:\n    - name: main\n      image: "
        '{{ .Values.image.repository | default (printf "%s.example/agent" .Values.global.region) }}'
        ":{{ .Values.image.tag }}\n"
    )
    for path, data in (archives or {}).items():
        (chart / "charts" / path).write_bytes(data)
    top = folder / "upstream"
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(top, "add", "-f", ".")
    git(top, "commit", "-q", "-m", "one")
    return top, git(top, "rev-parse", "HEAD")


def locked_from(folder: Path, source: tuple[Path, str], *, without: str = "[unused-operator]") -> Lock:
    path = folder / "charts.lock.yaml"
    path.write_text(
        "folder: charts\ncharts:\n  op:\n    chart: op\n    version: 1.0.0\n"
        f"    source: {{git: 'file://{source[0]}', commit: '{source[1]}', path: chart}}\n"
        f"    without: {without}\n    sha256:\n"
    )
    return Lock.read(path)


def rendered(path: Path, folder: Path) -> str:
    values = folder / "on.yaml"
    values.write_text("agent: {enabled: true}\nglobal: {region: us-west-2}\n")
    return executable.render(path, release="op", namespace="default", values=values)


class TestDuplicates:
    def test_a_forgotten_archive_of_a_folder_is_not_packaged(self, tmp_path: Path) -> None:
        source = upstream(tmp_path, archives={"agent-0.1.0.tgz": archived("agent", "old.example/agent:v0")})
        lock = locked_from(tmp_path, source)
        store.fetch(lock.charts["op"])
        path = store.locate(Lock.read(lock.path).charts["op"])
        results = {rendered(path, tmp_path) for _ in range(20)}
        assert len(results) == 1
        assert "us-west-2.example/agent:v1" in results.pop()

    def test_helm_itself_throws_dice(self, tmp_path: Path) -> None:
        """What the rule is for: the same folder, the same values, two images."""
        top, _ = upstream(tmp_path, archives={"agent-0.1.0.tgz": archived("agent", "old.example/agent:v0")})
        images: set[bool] = set()
        for _ in range(2000):  # how often either comes is Go's business; both come soon
            images.add("old.example" in rendered(top / "chart", tmp_path))
            if len(images) == 2:
                return
        raise AssertionError(images)

    def test_two_archives_of_one_name_are_refused(self, tmp_path: Path) -> None:
        old = archived("other", "a.example/x:1")
        source = upstream(tmp_path, archives={"other-0.1.0.tgz": old, "other-copy.tgz": old})
        lock = locked_from(tmp_path, source)
        with pytest.raises(ChartError, match=r"sub-chart 'other' occurs 2 times .*any of them\. Fix: "):
            store.fetch(lock.charts["op"])
        assert left_over(tmp_path) == []

    def test_a_published_archive_with_a_name_twice_is_refused(self, repository: Repository, tmp_path: Path) -> None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as file:
            for path in ("Chart.yaml", "charts/a/Chart.yaml", "charts/b/Chart.yaml"):
                data = b"name: op\nversion: 1.0.0\n" if path == "Chart.yaml" else b"name: same\nversion: 1.0.0\n"
                member = tarfile.TarInfo(f"op/{path}")
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))
        repository.publish("op", "1.0.0", digest=sha(out.getvalue()))
        repository.files["/archives/op-1.0.0.tgz"] = out.getvalue()
        with pytest.raises(ChartError, match="'same' occurs 2 times"):
            store.fetch(lock(tmp_path, repository.url))


class TestWithout:
    def test_files_and_dependency_are_gone(self, tmp_path: Path) -> None:
        lock = locked_from(tmp_path, upstream(tmp_path))
        store.fetch(lock.charts["op"])
        folder = store.unpack(Lock.read(lock.path).charts["op"])
        assert not (folder / "charts" / "unused").exists()
        about = yaml.safe_load((folder / "Chart.yaml").read_text())
        assert [dependency["name"] for dependency in about["dependencies"]] == ["agent"]

    def test_a_name_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        lock = locked_from(tmp_path, upstream(tmp_path), without="[unused]")
        with pytest.raises(ChartError, match=r"without: no sub-chart 'unused'. Expected one of agent, unused-operator"):
            store.fetch(lock.charts["op"])


class TestVersions:
    @pytest.mark.parametrize(("published", "asked"), [("v1.0.0", "1.0.0"), ("1.0.0", "v1.0.0")])
    def test_a_v_before_the_version_means_nothing(
        self, published: str, asked: str, repository: Repository, tmp_path: Path
    ) -> None:
        repository.publish("op", published)
        path = lock(tmp_path, repository.url).lock_file
        path.write_text(path.read_text().replace("version: 1.0.0", f"version: {asked}"))
        assert store.fetch(Lock.read(path).charts["op"]).done == "fetched"


class TestFrozen:
    def test_an_unrecorded_digest_is_refused_before_anything_is_asked(
        self, repository: Repository, tmp_path: Path
    ) -> None:
        repository.publish("op", "1.0.0")
        with pytest.raises(
            ChartError,
            match=r"charts\.op\.sha256: empty\. .* --frozen records nothing\. Fix: run `hyperpod-ray charts fetch`",
        ):
            store.fetch(lock(tmp_path, repository.url), frozen=True)
        assert repository.asked == []

    def test_a_recorded_one_is_fetched(self, repository: Repository, tmp_path: Path) -> None:
        data = repository.publish("op", "1.0.0")
        assert store.fetch(lock(tmp_path, repository.url, sha256=sha(data)), frozen=True).done == "fetched"

    def test_the_command_exits_with_2(
        self, repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from hyperpod_ray.cli.main import main

        repository.publish("op", "1.0.0")
        path = lock(tmp_path, repository.url).lock_file
        assert main(["charts", "fetch", "--frozen", "--lock", str(path)]) == 2
        assert "--frozen" in capsys.readouterr().err
        assert main(["charts", "fetch", "--lock", str(path)]) == 0
        assert main(["charts", "fetch", "--frozen", "--lock", str(path)]) == 0
        (tmp_path / "charts.contents.yaml").write_text("op: {}\n")
        assert main(["charts", "fetch", "--frozen", "--lock", str(path)]) == 2
        assert "Expected what op-1.0.0.tgz contains" in capsys.readouterr().err

    @pytest.mark.parametrize("workflow", ["deploy.yml"])
    def test_workflows_that_deploy_are_frozen(self, workflow: str) -> None:
        text = (PROJECT / ".github" / "workflows" / workflow).read_text()
        runs = [line for line in text.splitlines() if "run: make" in line and "charts" in line]
        assert runs
        assert all("FROZEN=1" in line for line in runs)

    def test_the_projects_own_lock_has_every_digest(self) -> None:
        for locked in Lock.read(PROJECT / "hyperpod_ray/locks/charts.lock.yaml").charts.values():
            assert store.unrecorded(locked) == []


class TestContents:
    @pytest.mark.slow
    def test_images_by_region_and_the_values_that_change_them(self, tmp_path: Path) -> None:
        lock = locked_from(tmp_path, upstream(tmp_path))
        store.fetch(lock.charts["op"])
        made = contents.examine(Lock.read(lock.path).charts["op"])
        (image,) = made.images
        assert (image.component, image.condition) == ("agent", "agent.enabled")
        assert str(image.at("eu-west-1")) == "eu-west-1.example/agent:v1"
        assert image.levers == {"repository": "agent.image.repository", "tag": "agent.image.tag"}

    @pytest.mark.slow
    def test_only_values_that_something_reads_are_known(self, tmp_path: Path) -> None:
        lock = locked_from(tmp_path, upstream(tmp_path))
        store.fetch(lock.charts["op"])
        known = contents.examine(Lock.read(lock.path).charts["op"]).values
        values = {"agent": {"enabled": True, "labels": {"a": "b"}, "colour": "red"}, "left": 1, "un": {"on": False}}
        assert contents.unknown_values(values, known) == ["agent.colour", "left", "un"]

    @pytest.mark.slow
    def test_the_record_is_made_once_for_an_archive(self, tmp_path: Path) -> None:
        lock = locked_from(tmp_path, upstream(tmp_path))
        store.fetch(lock.charts["op"])
        lock = Lock.read(lock.path)
        assert contents.record(lock) == ["op"]
        assert contents.record(lock) == []
        contents.verify(lock)

    def test_the_record_belongs_to_the_lock(self) -> None:
        recorded = yaml.safe_load((PROJECT / "hyperpod_ray/locks/charts.contents.yaml").read_text())
        for key, locked in Lock.read(PROJECT / "hyperpod_ray/locks/charts.lock.yaml").charts.items():
            assert contents.fits(locked, recorded[key]), key

    def test_the_stand_ins_record_is_theirs(self) -> None:
        contents.verify(Lock.read(PROJECT / "hyperpod_ray_sandbox" / "charts" / "charts.lock.yaml"))

    @pytest.mark.parametrize("name", [name for name in environment_names() if name != "local"])
    def test_every_value_that_is_set_is_one_that_the_chart_knows(self, name: str) -> None:
        plan = Plan(name=name, settings=load(name).settings)
        lock = plan.settings.helm.lock_file
        for release in k8s.helm_releases(plan):
            assert contents.unknown_values(release.values, chart_values(lock, release.locked.key)) == []

    def test_an_unknown_value_would_be_seen(self) -> None:
        known = chart_values("charts.lock.yaml", "hyperpod-dependencies")
        wrong = {"hyperpod-ray-endpoint-operator": {"enabled": False}, "mpi-operator": {"enabled": False}}
        assert contents.unknown_values(wrong, known) == ["hyperpod-ray-endpoint-operator", "mpi-operator"]

    def test_the_real_charts_images(self) -> None:
        """As read in the charts at the locked commits."""
        images = {
            i.component: str(i.at("us-west-2")) for i in chart_images("charts.lock.yaml", "hyperpod-dependencies")
        }
        assert images["nvidia-device-plugin"] == "nvcr.io/nvidia/k8s-device-plugin:v0.16.1"
        assert images["aws-efa-k8s-device-plugin"].startswith("602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/")
        assert images["health-monitoring-agent"].startswith("905418368575.dkr.ecr.us-west-2.amazonaws.com/hyperpod-")
        (operator,) = chart_images("charts.lock.yaml", "kuberay-operator")
        assert str(operator.at("us-west-2")) == "quay.io/kuberay/operator:v1.7.0"
