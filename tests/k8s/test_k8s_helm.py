"""The Helm releases, and the stand-in charts rendered by the helm that a deploy uses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.charts import executable, store
from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.charts.lock import Lock
from hyperpod_ray.core import Plan
from hyperpod_ray.core.names import OPERATOR_NAMESPACE
from tests.support import kubernetes_schemas

PROJECT = Path(__file__).resolve().parents[2]
STAND_INS = PROJECT / "hyperpod_ray_sandbox" / "charts"
Plans = Callable[..., Plan]


@pytest.fixture(scope="module")
def helm() -> Path:
    found = executable.helm()
    if found is None:
        pytest.skip("no helm on PATH, and none in the kubectl layer's wheel for this machine")
    return found


def rendered(release: k8s.HelmRelease, folder: Path) -> list[dict[str, Any]]:
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump(release.values), encoding="utf-8")
    return executable.template(release.archive, release=release.name, namespace=release.namespace, values=values)


class TestReleases:
    def test_hyperpod_dependencies_come_before_there_are_nodes(self, plan_with: Plans) -> None:
        release = k8s.hyperpod_dependencies(plan_with("prod"))
        assert (release.namespace, release.wait) == ("kube-system", False)
        assert release.values["global"] == {"region": "us-west-2"}

    @pytest.mark.parametrize(
        "name", ["training-operators", "mpi-operator", "cert-manager", "gpu-operator", "hyperpod-inference-operator"]
    )
    def test_operators_nobody_uses_here_are_not_packaged(self, name: str, plan_with: Plans) -> None:
        assert name in k8s.hyperpod_dependencies(plan_with("prod")).locked.without

    def test_device_plugins_follow_the_instance_types(self, plan_with: Plans, render: Callable[[str], Any]) -> None:
        gpu = k8s.hyperpod_dependencies(plan_with("prod")).values
        assert gpu["nvidia-device-plugin"]["devicePlugin"] == {"enabled": True}
        assert gpu["neuron-device-plugin"]["devicePlugin"] == {"enabled": False}
        assert gpu["aws-efa-k8s-device-plugin"]["supportedInstanceLabels"] == {"values": ["ml.p5.48xlarge"]}
        affinity = gpu["nvidia-device-plugin"]["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["ml.p5.48xlarge"]
        neuron = k8s.hyperpod_dependencies(render("neuron").plan).values
        assert neuron["nvidia-device-plugin"] == {"devicePlugin": {"enabled": False}}
        assert neuron["neuron-device-plugin"]["devicePlugin"] == {"enabled": True}

    def test_without_efa_the_charts_own_list_of_types_stays(self, plan_with: Plans) -> None:
        """An empty list of types would be the affinity of no node, which Kubernetes refuses."""
        groups = [
            {"name": "head", "type": "ml.m5.2xlarge", "count": 1},
            {"name": "workers", "type": "ml.g5.2xlarge", "count": 2},
        ]
        values = k8s.hyperpod_dependencies(plan_with("dev", hyperpod={"instance_groups": groups})).values
        assert values["aws-efa-k8s-device-plugin"] == {"devicePlugin": {"enabled": False}}
        assert values["nvidia-device-plugin"]["devicePlugin"] == {"enabled": True}

    def test_device_plugins_tolerate_the_groups_taints(self, render: Callable[[str], Any]) -> None:
        values = k8s.hyperpod_dependencies(render("tainted").plan).values
        for name in ("nvidia-device-plugin", "aws-efa-k8s-device-plugin"):
            assert {"key": "reserved", "operator": "Exists", "effect": "NoExecute"} in values[name]["tolerations"]
            # nodes under deep health checks must announce their devices
            assert "sagemaker.amazonaws.com/node-health-status" in {
                toleration["key"] for toleration in values[name]["tolerations"]
            }

    def test_the_operator_is_on_the_heads_group_and_confined(
        self, plan_with: Plans, render: Callable[[str], Any]
    ) -> None:
        release = k8s.kuberay_operator(plan_with("prod"))
        assert (release.namespace, release.wait) == (OPERATOR_NAMESPACE, True)
        values = release.values
        assert values["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": "head"}
        assert (values["singleNamespaceInstall"], values["watchNamespace"]) == (True, ["ray"])
        assert values["securityContext"]["runAsNonRoot"] is True
        assert k8s.kuberay_operator(render("several-groups").plan).values["watchNamespace"] == [
            "ray",
            "team-a",
            "team-b",
        ]
        assert {"key": "dedicated", "operator": "Equal", "value": "ray", "effect": "NoSchedule"} in (
            k8s.kuberay_operator(render("tainted").plan).values["tolerations"]
        )

    def test_two_operators_where_there_are_two_nodes(self, plan_with: Plans, render: Callable[[str], Any]) -> None:
        assert k8s.kuberay_operator(plan_with("prod")).values["replicas"] == 2
        assert k8s.kuberay_operator(render("tainted").plan).values["replicas"] == 1

    def test_helm_gives_up_before_the_function_does(self, plan_with: Plans) -> None:
        for release in k8s.helm_releases(plan_with("prod")):
            assert 0 < release.timeout_minutes <= 12

    def test_versions_are_those_of_the_lock(self, plan_with: Plans) -> None:
        for release in k8s.helm_releases(plan_with("prod")):
            assert release.version in {"0.1.0", "1.7.0"}
        with pytest.raises(ChartError, match=r"charts\.kuberay-operator\.version: 1\.7\.0\. Expected 9\.9\.9"):
            k8s.kuberay_operator(plan_with("prod", helm={"kuberay_operator": "9.9.9"}))


class TestStandIns:
    @pytest.mark.parametrize("name", ["kuberay-operator", "hyperpod-dependencies"])
    def test_say_what_they_are_and_pass_lint(self, name: str, helm: Path) -> None:
        about = yaml.safe_load((STAND_INS / name / "Chart.yaml").read_text())
        assert about["description"].startswith("STAND-IN")
        command = [str(helm), "lint", "--strict", str(STAND_INS / name), "--set", "global.region=us-west-2"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout

    @pytest.mark.parametrize("variant_name", ["local", "tainted", "neuron", "several-groups"])
    def test_render_to_valid_objects(
        self, variant_name: str, plan_with: Plans, render: Callable[[str], Any], helm: Path, tmp_path: Path
    ) -> None:
        plan = render(variant_name).plan
        helm_settings = plan.settings.helm.model_copy(
            update={"lock_file": "hyperpod_ray_sandbox/charts/charts.lock.yaml"}
        )
        plan = Plan(name=plan.name, settings=plan.settings.model_copy(update={"helm": helm_settings}))
        for release in k8s.helm_releases(plan):
            objects = rendered(release, tmp_path)
            assert objects
            for item in objects:
                kubernetes_schemas.validate(item)
            names = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects]
            assert len(names) == len(set(names))

    def test_the_operator_lands_where_the_release_says(self, plan_with: Plans, helm: Path, tmp_path: Path) -> None:
        objects = rendered(k8s.kuberay_operator(plan_with("local")), tmp_path)
        (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
        assert deployment["metadata"]["namespace"] == OPERATOR_NAMESPACE
        spec = deployment["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": "head"}
        assert "--watch-namespace=ray" in spec["containers"][0]["args"]
        assert {item["metadata"]["namespace"] for item in objects if item["kind"] == "Role"} == {
            "ray",
            OPERATOR_NAMESPACE,
        }

    def test_without_a_region_the_chart_refuses(self, helm: Path, tmp_path: Path) -> None:
        (tmp_path / "values.yaml").write_text("{}")
        with pytest.raises(ChartError, match="region"):
            executable.template(
                STAND_INS / "hyperpod-dependencies", release="x", namespace="y", values=tmp_path / "values.yaml"
            )

    def test_crds_are_valid_and_serve_v1(self) -> None:
        for plural in ("rayclusters", "raycronjobs", "rayjobs"):
            crd = yaml.safe_load((STAND_INS / "kuberay-operator" / "crds" / f"ray.io_{plural}.yaml").read_text())
            kubernetes_schemas.validate(crd)
            assert crd["metadata"]["name"] == f"{plural}.ray.io"
            assert [version["name"] for version in crd["spec"]["versions"]] == ["v1"]

    def test_real_crds_replace_them_when_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        crds = tmp_path / "real"
        crds.mkdir()
        (crds / "ray.io_rayclusters.yaml").write_text("# another file\n")
        text = (STAND_INS / "charts.lock.yaml").read_text()
        for name in ("kuberay-operator", "hyperpod-dependencies"):
            (tmp_path / name).symlink_to(STAND_INS / name)
        (tmp_path / "charts.lock.yaml").write_text(text)
        locked = Lock.read(tmp_path / "charts.lock.yaml").charts["kuberay-operator"]
        monkeypatch.delenv("KUBERAY_CRDS", raising=False)
        small = store.unpack(locked)
        assert len(list((small / "crds").iterdir())) == 3
        monkeypatch.setenv("KUBERAY_CRDS", str(crds))
        real = store.unpack(locked)
        assert [path.read_text() for path in (real / "crds").iterdir()] == ["# another file\n"]
        monkeypatch.setenv("KUBERAY_CRDS", str(tmp_path))
        with pytest.raises(ChartError, match="KUBERAY_CRDS: no ray"):
            store.locate(locked)

    def test_need_no_fetch_and_no_digest(self) -> None:
        for locked in Lock.read(STAND_INS / "charts.lock.yaml").charts.values():
            assert locked.sha256 is None
            assert store.locate(locked).is_file()


def test_values_are_plain(plan_with: Plans) -> None:
    for release in k8s.helm_releases(plan_with("prod")):
        assert json.loads(json.dumps(release.values)) == release.values
