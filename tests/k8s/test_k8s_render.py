"""`make manifests`, the command line, and the promise that a deploy applies the same objects with its tokens intact."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.cli.main import main as run
from hyperpod_ray.core import Plan, load
from hyperpod_ray.k8s import render as rendering
from tests.k8s.k8s_render_helpers import contents

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("manifests") / "local"
    assert run(["manifests", "local", "--out", str(out)]) == 0
    return out


def test_one_file_per_concern_in_apply_order(local: Path) -> None:
    assert list(contents(local)) == [
        "01-hyperpod-dependencies.rendered.yaml",
        "01-hyperpod-dependencies.values.yaml",
        "02-namespaces.yaml",
        "03-operator-network-policy.yaml",
        "04-network-policies.yaml",
        "05-access.yaml",
        "06-guard-network-policy.yaml",
        "07-system-network-policies.yaml",
        "08-persistent-volume.yaml",
        "09-persistent-volume-claim.yaml",
        "10-kuberay-operator.rendered.yaml",
        "10-kuberay-operator.values.yaml",
        "11-node-guard.yaml",
        "12-volume-owner.yaml",
        "13-image-pull.yaml",
        "14-ray-cluster.yaml",
        "README.md",
    ]


def test_files_hold_the_objects_a_deploy_applies(local: Path) -> None:
    plan = Plan(name="local", settings=load("local").settings)
    bindings = k8s.placeholders(plan)
    wanted = [
        item
        for manifest in (
            *k8s.namespace_manifests(plan),
            *k8s.system_manifests(plan),
            *k8s.platform_manifests(plan, bindings),
            *k8s.guard_manifests(plan, bindings),
            *k8s.ray_manifests(plan, bindings),
        )
        for item in manifest.objects
    ]
    files = [path for path in sorted(local.glob("*.yaml")) if path.name.count(".") == 1]
    assert [item for path in files for item in yaml.safe_load_all(path.read_text())] == wanted


def test_what_only_the_stack_knows_is_a_placeholder(local: Path) -> None:
    text = "".join(path.read_text() for path in local.glob("*.yaml"))
    for placeholder in ("<file-system-id>", "<file-system-dns-name>", "<file-system-mount-name>", "<content-hash>"):
        assert placeholder in text
    assert "Token[" not in text


def test_releases_are_rendered_where_the_chart_is_there(local: Path) -> None:
    kinds = [item["kind"] for item in yaml.safe_load_all((local / "10-kuberay-operator.rendered.yaml").read_text())]
    assert "Deployment" in kinds
    values = yaml.safe_load((local / "10-kuberay-operator.values.yaml").read_text())
    assert values["watchNamespace"] == ["ray"]
    readme = (local / "README.md").read_text()
    assert (
        "helm upgrade --install kuberay-operator hyperpod_ray_sandbox/charts/dist/kuberay-operator-1.7.0.tgz" in readme
    )
    assert "kubectl apply -f 14-ray-cluster.yaml" in readme


def test_the_command_of_a_release_has_what_the_release_asks_for(render: Callable[[str], Any]) -> None:
    """https://helm.sh/docs/helm/helm_upgrade/"""
    release = k8s.kuberay_operator(render("dev").plan)
    release = replace(release, wait=False, timeout_minutes=7, namespace="ops")
    options = {"--namespace ops", "--values v.yaml", "--timeout 7m"}

    def last(**changes: Any) -> str:
        return rendering.helm_command(replace(release, **changes), values="v.yaml")[-1]

    assert all(option in last() for option in options)
    assert ("--wait" in last(), "--create-namespace" in last()) == (False, False)
    assert ("--wait" in last(wait=True), "--create-namespace" in last(wait=True)) == (True, False)
    assert last(create_namespace=True).endswith(" --create-namespace")


def test_text_of_several_lines_is_readable(render: Callable[[str], Any], bindings: k8s.Bindings) -> None:
    job = k8s.ray_job(render("dev").plan, bindings, name="x", entrypoint="python main.py")
    text = rendering.dump([job, job])
    assert text.count("|\n") == text.count("runtimeEnvYAML: |\n") == 2, "one line of text stays on its line"
    assert "&id" not in text
    assert list(yaml.safe_load_all(text)) == [job, job]
    assert yaml.safe_load(job["spec"]["runtimeEnvYAML"])["env_vars"]["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] == "0.5"


def test_ray_job_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ray-job", "local", "--name", "one", "--entrypoint", "python main.py", "--image", "example.com/ray:1"]
    assert run([*arguments, "--on-existing-cluster", "--retries", "0"]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    assert (job["kind"], job["metadata"]["name"], job["spec"]["backoffLimit"]) == ("RayJob", "one", 0)
    assert job["spec"]["submitterPodTemplate"]["spec"]["containers"][0]["image"] == "example.com/ray:1"


def test_nothing_here_imports_aws_cdk() -> None:
    # import-linter reads the imports; this runs them
    code = "import sys, hyperpod_ray.k8s as k8s, hyperpod_ray.k8s.render, hyperpod_ray.k8s.manifests; k8s.ray_job; "
    code += "sys.exit(1 if 'aws_cdk' in sys.modules else 0)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


def test_every_public_name_loads() -> None:
    for name in k8s.__all__:
        assert getattr(k8s, name) is getattr(k8s, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        k8s.nothing  # noqa: B018


class TestTokens:
    """CDK tokens are strings that must arrive whole."""

    def test_tokens_resolve_inside_the_objects(self, render: Callable[[str], Any]) -> None:
        import aws_cdk as cdk

        stack = cdk.Stack(cdk.App(), "S")
        fields = {
            name: cdk.Fn.import_value(name) for name in k8s.Bindings.__dataclass_fields__ if name != "image_content"
        }
        bindings = k8s.Bindings(**fields)
        for name, places in {
            "prod": {"file_system_id", "file_system_dns_name", "file_system_mount_name", "image_uri"},
            "dynamic": {f"file_system_{part}" for part in ("id", "dns_name", "mount_name", "security_group_id")}
            | {"node_subnet_id", "image_uri"},
        }.items():
            plan = render(name).plan
            manifests = [
                *k8s.namespace_manifests(plan),
                *k8s.platform_manifests(plan, bindings),
                *k8s.guard_manifests(plan, bindings),
                *k8s.ray_manifests(plan, bindings),
            ]
            resolved = stack.resolve([item for manifest in manifests for item in manifest.objects])
            assert "Token[" not in str(resolved)
            found = {
                value["Fn::ImportValue"]
                for value in walk(resolved)
                if isinstance(value, dict) and "Fn::ImportValue" in value
            }
            assert found == places, name

    def test_two_synths_give_the_same_objects(self, render: Callable[[str], Any]) -> None:
        import aws_cdk as cdk

        plan = render("dynamic").plan
        made = []
        for _ in range(2):
            stack = cdk.Stack(cdk.App(), "S")
            cdk.Fn.import_value("moves the counter")
            bindings = k8s.Bindings(
                image_uri=cdk.Fn.import_value("image"), node_subnet_id=cdk.Fn.import_value("subnet")
            )
            made.append(stack.resolve([manifest.objects for manifest in k8s.ray_manifests(plan, bindings)]))
        assert made[0] == made[1]


def walk(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value, *(found for item in inner for found in walk(item))]
