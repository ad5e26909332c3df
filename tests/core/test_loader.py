"""Eighteen ways to get a cluster file wrong, each of which another tool called valid; and files that are no files."""

# ruff: noqa: E501  (the whole message on one line, as the user sees it)

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hyperpod_ray.core.loader import FOLDER, EnvironmentFileError, environment_names, load, load_any, parse
from hyperpod_ray_rules import data_file

PROD = (FOLDER / "prod.yaml").read_text(encoding="utf-8").replace("count: 8\n", "count: 8 \n", 1)


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


EIGHTEEN = {
    "type without ml.": ("ml.p5.48xlarge", "p5.48xlarge", "type: p5.48xlarge", "hyperpod.instance_groups[1].type: 'p5.48xlarge'. Expected a HyperPod instance type. Fix: did you mean 'ml.p5.48xlarge'?"),
    "misspelled type": ("ml.p5.48xlarge", "ml.p5.48xlage", "type: ml.p5.48xlage", "hyperpod.instance_groups[1].type: 'ml.p5.48xlage' is not a HyperPod instance type known here. Expected a listed type, or the specification of a new one. Fix: did you mean 'ml.p5.48xlarge'? If it is new, give its specification in the environment: instance_types: {ml.p5.48xlage: {vcpus: …, memory_gib: …, accelerator: …, accelerators: …, efa: …, ips: …, pods: …}}"),
    "negative count": ("count: 8 ", "count: -8 ", "count: -8", "hyperpod.instance_groups[1].count: -8 is too small. Expected 0 or more. Fix: correct the value"),
    "count in words": ("count: 8 ", "count: nine ", "count: nine", "hyperpod.instance_groups[1].count: the text 'nine'. Expected a whole number. Fix: correct the value"),
    "invented health check": ("[InstanceStress, ", "[GpuBurn, ", "[GpuBurn", "hyperpod.instance_groups[1].deep_health_checks[0]: 'GpuBurn'. Expected one of InstanceStress, InstanceConnectivity. Fix: choose one of them"),
    "health check on a CPU type": ("threads_per_core: 2", "threads_per_core: 2\n      deep_health_checks: [InstanceStress]", "deep_health_checks: [InstanceStress]", "hyperpod.instance_groups[0].deep_health_checks: ml.m5.2xlarge has no accelerator. Expected a GPU or Trainium type for deep health checks. Fix: remove the setting"),
    "network of /99": ("10.64.0.0/16", "10.64.0.0/99", "10.64.0.0/99", "network.cidr: '10.64.0.0/99' is no IPv4 range. Expected a prefix length from 0 to 32. Fix: correct it"),
    "unknown key": ("alarm_emails:", "alarm_email:", "alarm_email:", "hyperpod.alarm_email: unknown setting. Expected a setting of this section. Fix: did you mean 'alarm_emails'?"),
    "key in the wrong section": ("protected: true", "capacity_gib: 9600", "capacity_gib: 9600", "capacity_gib: unknown setting here. Expected a setting of this section. Fix: move it to storage.capacity_gib"),
    "missing key": ("      count: 8 ", "      # count: 8 ", "- name: workers", "hyperpod.instance_groups[1].count: required setting is missing. Expected count: `InstanceCount`: number of nodes. Fix: add it"),
    "underscore in a group's name": ("- name: workers", "- name: gpu_workers", "- name: gpu_workers", "hyperpod.instance_groups[1].name: 'gpu_workers'. Expected a HyperPod name (letters, digits and hyphens, no underscore, at most 63, beginning and ending with a letter or digit), such as 'gpu-workers'. Fix: correct the value"),
    "group that is not there": ("instance_group: workers", "instance_group: wrokers", "instance_group: wrokers", "ray.workers[0].instance_group: no instance group is called 'wrokers'. Expected one of head, workers. Fix: did you mean 'workers'?"),
    "more workers than nodes": ("replicas: 8 ", "replicas: 10 ", "replicas: 10 ", "ray.workers[0].replicas: 10 × worker of 'gpu' (8 accelerators, 32 EFA, 94 vCPUs, 1892 GiB) need 10 nodes, 'workers' has 8 × ml.p5.48xlarge, which carry 8. Expected at most 8. Fix: lower replicas, or raise the group's count"),
    "more nodes than addresses": ("count: 8 ", "count: 400 ", "count: 400 ", "hyperpod.instance_groups[1].count: the nodes in usw2-az3 take 32,445 addresses (400 × 81 of ml.p5.48xlarge and 1 more group); the subnet there, a /19, has 8,187. Expected at most 100 nodes of this group. Fix: lower count, widen network.cidr or lower node_subnet_prefix"),
    "zone by name": ("[usw2-az3, ", "[us-west-2c, ", "[us-west-2c, ", "network.availability_zone_ids[0]: 'us-west-2c'. Expected an Availability Zone ID (not a name such as us-west-2a; aws ec2 describe-availability-zones lists the IDs), such as 'usw2-az1'. Fix: correct the value"),
    "size that FSx does not have": ("capacity_gib: 7200", "capacity_gib: 10000", "capacity_gib: 10000", "storage.capacity_gib: 10000 is no size of FSx for Lustre. Expected 1200, 2400 and multiples of 2400. Fix: set 9600 or 12000"),
    "account without quotes": ('account: "444455556666"', "account: 444455556666", "account: 444455556666", "account: `444455556666` is a number in YAML. Expected text. Fix: quote it: '444455556666'"),
    "the same key twice": ("      count: 8 ", "      count: 8\n      count: 7 ", "count: 7 ", "hyperpod.instance_groups[1].count: set twice: first in line {before}. Expected one value. Fix: keep one"),
}  # fmt: skip
"""Name → what is replaced in prod.yaml, by what, where the message must point, and the message."""


@pytest.mark.parametrize("name", EIGHTEEN)
def test_each_of_the_eighteen_is_told(name: str) -> None:
    old, new, marker, message = EIGHTEEN[name]
    text = PROD.replace(old, new, 1)
    assert text != PROD
    with pytest.raises(EnvironmentFileError) as caught:
        parse(text, name="prod", path=FOLDER / "prod.yaml")
    line = line_of(text, marker)
    file = FOLDER / "prod.yaml"
    assert str(caught.value) == f"{file}:{line}: {message.replace('{before}', str(line - 1))}"


def test_there_are_eighteen() -> None:
    assert len(EIGHTEEN) == 18


def test_all_problems_of_a_file_come_together() -> None:
    text = PROD
    for old, new, *_ in (
        EIGHTEEN[name] for name in ("negative count", "network of /99", "unknown key", "account without quotes")
    ):
        text = text.replace(old, new, 1)
    with pytest.raises(EnvironmentFileError) as caught:
        parse(text, name="prod", path=FOLDER / "prod.yaml")
    assert [problem.path for problem in caught.value.problems] == [
        "account",
        "network.cidr",
        "hyperpod.alarm_email",
        "hyperpod.instance_groups[1].count",
    ]


YAML_TRAPS = {
    "tab": ("a:\n\tb: 1\n", 2, "(file)", "a tab in the indentation"),
    "no closing bracket": ("a: [1,\nb: 2\n", 2, "(file)", "not valid YAML"),
    "no closing quote": ('a: "x\n', 1, "(file)", "close the open quote or bracket"),
    "colon in a value": ("a: b: c\n", 1, "(file)", "quote a value that contains ': '"),
    "at sign": ("a: @b\n", 1, "(file)", "quote a value that starts with a special character"),
    "nothing": ("", 1, "(file)", "the file is empty"),
    "only a comment": ("# later\n", 1, "(file)", "the file is empty"),
    "a list": ("- a\n- b\n", 1, "(file)", "a list of 2. Expected settings"),
    "a word": ("hello\n", 1, "(file)", "the text 'hello'. Expected settings"),
    "two documents": ("region: us-west-2\n---\nregion: us-west-2\n", 2, "(file)", "a second document starts here"),
    "anchor": ("region: &r us-west-2\n", 1, "region", "anchor &r. Expected no anchors"),
    "alias of nothing": ("region: us-west-2\ntags: *r\n", 2, "tags", "Expected no aliases"),
    "alias of an anchor": ("region: &r us-west-2\nprotected: *r\n", 2, "protected", "Expected no aliases"),
    "merge key": ("<<: {region: us-west-2}\n", 1, "(file)", "merge key <<. Expected no merge keys"),
    "tag": ("region: !!python/object:os.system us-west-2\n", 1, "region", "tag !!python/object:os.system. Expected no tags"),
    "key that is a list": ("? [a]\n: b\n", 1, "(file)", "a list, a mapping or an alias as key. Expected text"),
    "octal": ("account: 000000000017\n", 1, "account", "means different things to different YAML readers"),
    "underscored number": ("storage: {capacity_gib: 1_200}\n", 1, "storage.capacity_gib", "means different things"),
    "base 60": ("tags: {time: 12:30}\n", 1, "tags.time", "means different things"),
    "0o": ("protected: 0o17\n", 1, "protected", "means different things"),
    "no as text": ("tags: {spot: no}\n", 1, "tags.spot", "`no` is a boolean in YAML. Expected text. Fix: quote it: 'no'"),
    "version as a number": ("eks: {version: 1.30}\n", 1, "eks.version", "`1.30` is a number in YAML. Expected text. Fix: quote it: '1.30'"),
    "quoted number": ('storage: {capacity_gib: "1200"}\n', 1, "storage.capacity_gib", "remove the quotes"),
    "number with its unit": ("storage: {capacity_gib: 1200GiB}\n", 1, "storage.capacity_gib", "remove the unit"),
    "control character": ('region: "us\\x01west"\n', 1, "region", "character U+0001. Expected characters that a setting can contain"),
    "raw control character": ("region: us\x01west\n", 1, "(file)", "character U+0001. Expected characters that YAML allows"),
    "empty section": ("storage:\nregion: us-west-2\n", 1, "storage", "the section is empty. Expected a section of settings (capacity_gib,"),
    "twice": ("region: us-west-2\nregion: us-east-1\n", 2, "region", "set twice: first in line 1. Expected one value. Fix: keep one"),
    "too deep": ("a: " + "[" * 60 + "]" * 60 + "\n", 1, "a" + "[0]" * 23, "nested too deep. Expected at most 24 levels"),
    "huge number": ("storage: {capacity_gib: " + "9" * 5000 + "}\n", 1, "storage.capacity_gib", "a number of 5000 digits"),
    "float": ("storage: {capacity_gib: 1200.5}\n", 1, "storage.capacity_gib", "the number 1200.5. Expected a whole number"),
    "infinity": ("storage: {capacity_gib: .inf}\n", 1, "storage.capacity_gib", "Expected a whole number"),
    "truth value as a number": ("storage: {capacity_gib: yes}\n", 1, "storage.capacity_gib", "the boolean true. Expected a whole number"),
    "number as an enum": ("storage: {lustre_version: 2.15}\n", 1, "storage.lustre_version", "quote it: '2.15'"),
    "text as a number enum": ("storage: {throughput_mbs_per_tib: '250'}\n", 1, "storage.throughput_mbs_per_tib", "remove the quotes"),
    "scalar as a list": ("network: {availability_zone_ids: usw2-az1}\n", 1, "network.availability_zone_ids", "Expected a list"),
    "too short a list": ("network: {availability_zone_ids: [usw2-az1]}\n", 1, "network.availability_zone_ids", "1 entry. Expected at least 2 entries"),
    "bad key of a map": ("ray: {env: {1X: a}}\n", 1, "ray.env['1X']", "not beginning with a digit"),
}  # fmt: skip


@pytest.mark.parametrize("name", YAML_TRAPS)
def test_yaml_traps(name: str) -> None:
    text, line, path, message = YAML_TRAPS[name]
    with pytest.raises(EnvironmentFileError) as caught:
        parse(text, name="x", path=FOLDER / "x.yaml")
    found = [p for p in caught.value.problems if (p.line, p.path) == (line, path) and message in p.message]
    assert len(found) == 1, str(caught.value)


def test_alias_bombs_are_refused_without_being_built() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    with pytest.raises(EnvironmentFileError, match="Expected no aliases"):
        parse("\n".join(lines), name="x", path=FOLDER / "x.yaml")


def test_a_hundred_thousand_brackets_do_not_exhaust_the_stack() -> None:
    with pytest.raises(EnvironmentFileError):
        parse("a: " + "[" * 100_000, name="x", path=FOLDER / "x.yaml")


@pytest.mark.parametrize(
    ("raw", "line", "message"),
    [
        (b"region: us-west-2\ntags: {a: \xff}\n", 2, "byte 0xff is not UTF-8"),
        ("region: us-west-2\n".encode("utf-16"), 1, "it is UTF-16. Expected UTF-8. Fix: save the file as UTF-8"),
        (b"#" * 1_000_001, 1, "more than 1,000,000 bytes"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, raw: bytes, line: int, message: str) -> None:
    (tmp_path / "x.yaml").write_bytes(raw)
    with pytest.raises(EnvironmentFileError) as caught:
        load("x", folder=tmp_path)
    assert [(p.line, p.path) for p in caught.value.problems] == [(line, "(file)")]
    assert message in caught.value.problems[0].message


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_bytes(b"\xef\xbb\xbf" + PROD.encode())
    assert load("prod", folder=tmp_path).settings.region == "us-west-2"


def test_windows_line_ends_are_no_problem(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_bytes(PROD.replace("\n", "\r\n").replace("count: 8", "count: -8").encode())
    with pytest.raises(EnvironmentFileError) as caught:
        load("prod", folder=tmp_path)
    assert [problem.line for problem in caught.value.problems] == [line_of(PROD, "count: 8")]


def test_a_missing_file_names_its_neighbours() -> None:
    with pytest.raises(EnvironmentFileError) as caught:
        load("prd")
    (problem,) = caught.value.problems
    assert (
        problem.message
        == "no environment 'prd'. Expected one of dev, local, prod in environments. Fix: did you mean 'prod'?"
    )
    assert (problem.file, problem.line) == ("environments/prd.yaml", 1)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").mkdir()
    with pytest.raises(EnvironmentFileError, match="is a folder"):
        load("x", folder=tmp_path)


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFileError, match="Expected an environment file in"):
        load("x", folder=tmp_path / "nowhere")


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").symlink_to("x.yaml")
    with pytest.raises(EnvironmentFileError, match="cannot be read"):
        load("x", folder=tmp_path)


@pytest.mark.parametrize(
    "name", ["", "Prod", "../Prod", "1prod.yaml", "1prod", "a" * 22, "prod-", "instance_types", "a\0b", "pröd"]
)
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(EnvironmentFileError, match="cannot name an environment"):
        load(name)


@pytest.mark.parametrize(
    "path", ["prod.yaml", "../prod", "environments/prod.yaml", "/srv/environments/prod.yml", "\x1b[31m/prod"]
)
def test_a_path_for_a_name_is_answered_with_the_name(path: str) -> None:
    with pytest.raises(EnvironmentFileError, match=r"is a path\. Expected the name .* Fix: type prod\."):
        load(path)


def test_files_outside_the_current_folder_are_named_in_full(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("region: 1\n", encoding="utf-8")
    with pytest.raises(EnvironmentFileError) as caught:
        load("x", folder=tmp_path)
    assert caught.value.problems[0].file == str(tmp_path / "x.yaml")


def test_the_shipped_files_are_good_and_without_warnings() -> None:
    assert environment_names() == ["dev", "local", "prod"]
    assert [load(name).warnings for name in environment_names()] == [[], [], []]


@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "examples"], ids=["shipped", "examples"])
def test_a_file_that_was_checked_is_checked_again_without_a_data_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are larger than it: reading one again took longer than all else of the check."""
    names = environment_names(folder=folder)
    assert names
    for _ in range(2):
        for name in names:
            load_any(name, folder=folder)
        monkeypatch.setattr(data_file, "read", lambda path: pytest.fail(f"{path} is read again"))


def test_the_shipped_files_differ_for_good_reasons() -> None:
    files = [load(name) for name in environment_names()]
    dev, local, prod = (file.settings for file in files)
    assert [one.storage.kind for one in (dev, local, prod)] == ["static", "static", "static"]
    assert [file.plan.new_file_system and file.plan.new_file_system.on_destroy for file in files] == [
        "delete",
        "delete",
        "retain",
    ]
    assert [one.protected for one in (dev, local, prod)] == [False, False, True]
    assert [one.network.closed for one in (dev, local, prod)] == [False, False, True]
    assert local.helm.lock_file == "hyperpod_ray_sandbox/charts/charts.lock.yaml"
    assert len({one.account for one in (dev, local, prod)}) == 3
    assert len({file.plan.new_network and file.plan.new_network.cidr for file in (files[0], files[2])}) == 2


@pytest.mark.parametrize("name", ["dev", "local", "prod"])
def test_editors_find_the_schema(name: str) -> None:
    assert (
        (FOLDER / f"{name}.yaml")
        .read_text(encoding="utf-8")
        .startswith("# yaml-language-server: $schema=schema.json\n")
    )


def test_a_section_that_yaml_finds_at_fault_is_not_cross_checked() -> None:
    text = (FOLDER / "prod.yaml").read_text(encoding="utf-8").replace("replicas: 8 ", "replicas: 80 ")
    twice = text.replace("  cluster_name: ray-prod\n", "  cluster_name: ray-prod\n" * 2)
    with pytest.raises(EnvironmentFileError) as caught:
        parse(twice, name="prod", path=FOLDER / "prod.yaml")
    assert [problem.path for problem in caught.value.problems] == ["hyperpod.cluster_name"]
