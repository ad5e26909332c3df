"""`network.proxy`, from the file to nodes, functions, builds and pods."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core import load, outbound
from hyperpod_ray.core.loader import EnvironmentFileError
from tests.stacks.assembled import Assembly, synthesize

PROJECT = Path(__file__).resolve().parents[2]
VARIANTS = PROJECT / "tests" / "stacks" / "variants"
URL = "http://proxy.corp.example.com:3128"
SCRIPT = PROJECT / "constructs" / "with_proxy.sh"


def changed(folder: Path, source: Path, name: str, **network: Any) -> Assembly:
    settings = yaml.safe_load(source.read_text())
    settings["network"] |= network
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    return synthesize(name, folder=folder)


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    proxy = {"url": URL, "no_proxy": [".corp.example.com"]}
    return changed(tmp_path_factory.mktemp("files"), VARIANTS / "existing.yaml", "existing", proxy=proxy)


def passes(host: str, entries: str) -> bool:
    """As Python, and with it the AWS SDK and CLI, reads the list."""
    bypass = getattr(urllib.request, "proxy_bypass_environment")  # noqa: B009  # public, and not in the stubs
    return bool(bypass(host, {"no": entries}))


def test_functions_in_the_vpc_have_it_and_others_do_not(existing: Assembly) -> None:
    functions = [each["Properties"] for each in existing.of_type("AWS::Lambda::Function").values()]
    inside = [function for function in functions if function.get("VpcConfig")]
    assert inside
    assert len(functions) > len(inside)
    for function in functions:
        variables = function.get("Environment", {}).get("Variables", {})
        assert variables.get("HTTPS_PROXY") == (URL if function in inside else None)
    entries = inside[0]["Environment"]["Variables"]["NO_PROXY"]
    # the Kubernetes API, and the service that answers for it; AWS's own APIs go through the proxy
    assert passes("0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com", entries)
    assert not passes("eks.us-west-2.amazonaws.com", entries)
    assert not passes("pypi.org", entries)
    direct = ["169.254.169.254", "169.254.170.23", "[fd00:ec2::23]", "localhost", "a.corp.example.com"]
    direct += ["head.ray.svc", "head.ray.svc.cluster.local", "ip-10-0-0-1.us-west-2.compute.internal"]
    for host in direct:
        assert passes(host, entries), host
    assert "10.0.0.0/16" in entries.split(",")


def test_nodes_run_it_first(existing: Assembly) -> None:
    configuration = [group["LifeCycleConfig"] for group in existing.one("AWS::SageMaker::Cluster")["InstanceGroups"]]
    assert {each["OnCreate"] for each in configuration} == {"with_proxy.sh"}
    ports = [
        rule.get("ToPort")
        for group in existing.of_type("AWS::EC2::SecurityGroup").values()
        for rule in group["Properties"].get("SecurityGroupEgress", [])
    ]
    ports += [rule["Properties"].get("ToPort") for rule in existing.of_type("AWS::EC2::SecurityGroupEgress").values()]
    assert 3128 in ports


def test_pods_have_it_and_may_reach_it(existing: Assembly) -> None:
    text = json.dumps(existing.templates)
    assert "with_proxy.sh" in text
    documents = "".join(
        json.dumps(each["Properties"]["Manifest"])
        for each in existing.of_type("Custom::AWSCDK-EKS-KubernetesResource").values()
    ).replace("\\", "")
    assert '"name":"HTTPS_PROXY","value":"http://proxy.corp.example.com:3128"' in documents
    assert '{"port":3128,"protocol":"TCP"}' in documents


def test_a_build_in_the_vpc_has_it_and_another_does_not(tmp_path: Path) -> None:
    source = VARIANTS / "closed-build.yaml"
    settings = yaml.safe_load(source.read_text())
    script = {"on_init_complete": "lifecycle/on_create.sh"}
    settings["hyperpod"] |= script
    first = tmp_path / "source.yaml"
    first.write_text(yaml.safe_dump(settings))
    (tmp_path / "in").mkdir()
    built = changed(tmp_path / "in", first, "inside", proxy={"url": "http://10.0.0.9:3128"})
    variables = built.one("AWS::CodeBuild::Project")["Environment"]["EnvironmentVariables"]
    values = {row["Name"]: row["Value"] for row in variables}
    assert values["HTTPS_PROXY"] == "http://10.0.0.9:3128"
    # endpoints that the stack creates are reached directly
    for host in ("api.ecr.us-west-2.amazonaws.com", "1.dkr.ecr.us-west-2.amazonaws.com", "s3.us-west-2.amazonaws.com",
                 "logs.us-west-2.amazonaws.com", "ml-1.d.codeartifact.us-west-2.amazonaws.com"):  # fmt: skip
        assert passes(host, values["NO_PROXY"]), host
    command = built.one("Custom::CDKContainerImageBuild")["buildCommand"]
    assert "--build-arg HTTPS_PROXY=http://10.0.0.9:3128" in json.dumps(command)
    dockerfile = (PROJECT / "hyperpod_ray" / "image" / "Dockerfile").read_text()
    assert "PROXY" not in dockerfile, "an ARG or ENV of the file would keep it in the image"
    rules = [rule for each in built.of_type("AWS::EC2::SecurityGroup").values()
             for rule in each["Properties"].get("SecurityGroupEgress", [])]  # fmt: skip
    assert "the HTTP proxy" in [rule.get("Description") for rule in rules]
    # outside the VPC nobody reaches the company's proxy
    settings["image"]["in_vpc"] = False
    settings["network"]["egress"] = "nat"
    first.write_text(yaml.safe_dump(settings))
    (tmp_path / "out").mkdir()
    outside = changed(tmp_path / "out", first, "outside", proxy={"url": "http://10.0.0.9:3128"})
    assert "HTTPS_PROXY" not in json.dumps(outside.one("AWS::CodeBuild::Project"))
    configuration = outside.one("AWS::SageMaker::Cluster")["InstanceGroups"][0]["LifeCycleConfig"]
    assert configuration["OnInitComplete"] == "with_proxy.sh"


@pytest.mark.parametrize("url", ["http://user:hunter2@proxy:3128", "http://hunter2@proxy:3128", "socks5://hunter2:1"])
def test_a_user_is_refused_and_not_shown(url: str, tmp_path: Path) -> None:
    settings = yaml.safe_load((VARIANTS / "existing.yaml").read_text())
    settings["network"]["proxy"] = {"url": url}
    (tmp_path / "dev.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(EnvironmentFileError) as refused:
        load("dev", folder=tmp_path)
    assert "network.proxy.url" in str(refused.value)
    assert "without user, password or path" in str(refused.value)
    assert "@" not in url or "hunter2" not in str(refused.value)


def test_slurm_without_a_script_and_a_closed_network_are_refused(tmp_path: Path) -> None:
    settings = yaml.safe_load((VARIANTS / "closed-build.yaml").read_text())
    settings["network"]["proxy"] = {"url": URL}
    (tmp_path / "dev.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(EnvironmentFileError) as refused:
        load("dev", folder=tmp_path)
    assert "no script runs on the nodes" in str(refused.value)
    assert "is outside the VPC, which has no way out" in str(refused.value)


def test_without_it_nothing_has_variables() -> None:
    assert outbound.variables(load("dev").plan) == {}


def test_the_script_tells_services_and_runs_the_other_with_it(tmp_path: Path) -> None:
    scripts, root, tools = tmp_path / "scripts", tmp_path / "root", tmp_path / "tools"
    for folder in (scripts, root, tools):
        folder.mkdir()
    (scripts / "with_proxy.sh").write_text(SCRIPT.read_text())
    (scripts / "proxy.env").write_text(f"HTTPS_PROXY={URL}\nNO_PROXY=localhost,[fd00:ec2::23],10.0.0.0/16\n")
    (scripts / "then-run").write_text("after.sh\n")
    (scripts / "after.sh").write_text('#!/bin/bash\necho "next has $HTTPS_PROXY and $NO_PROXY"\nexit 7\n')
    (tools / "systemctl").write_text(
        f'#!/bin/bash\necho "$@" >>{tmp_path}/calls\n'
        "[[ $1 != is-active || $3 == containerd || $3 == amazon-ssm-agent ]]\n"
    )
    (tools / "systemctl").chmod(0o755)
    environment = {"ROOT": str(root), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    for _ in range(2):  # on a replacement it runs again
        done = subprocess.run(
            ["bash", str(scripts / "with_proxy.sh")], env=environment, capture_output=True, text=True, check=False
        )
        # its exit code is the other's: a failure keeps the node out
        assert done.returncode == 7, done.stderr
        assert f"next has {URL} and localhost,[fd00:ec2::23],10.0.0.0/16" in done.stdout
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls.index("daemon-reload") < calls.index("restart containerd")
    assert not [call for call in calls if call.startswith("restart") and "containerd" not in call]
    for service in ("containerd", "kubelet", "docker"):
        drop_in = root / "etc" / "systemd" / "system" / f"{service}.service.d" / "90-proxy.conf"
        assert "EnvironmentFile=/etc/ray-on-hyperpod/proxy.env" in drop_in.read_text()
    assert (root / "etc" / "ray-on-hyperpod" / "proxy.env").read_text() == (scripts / "proxy.env").read_text()
