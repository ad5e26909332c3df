from __future__ import annotations

from hyperpod_ray.core.plan_names import stacks
from tests.core.environment_files import SLURM, changed
from tests.core.slurm_files_helpers import WORKERS, judged


def test_the_plan_of_the_example() -> None:
    found, _ = judged(SLURM)
    assert found is not None
    plan = found.plan
    assert stacks(plan) == ["Network", "Storage", "HyperPod"]
    assert (plan.controller.name, [group.name for group in plan.login]) == ("controller", ["login"])
    assert {name: [group.name for group in groups] for name, groups in plan.partitions.items()} == {
        "train": ["workers"]
    }
    assert plan.storage_zone == "usw2-az2"
    assert [group.name for group in plan.training_groups] == ["workers"]
    assert (plan.uploads_scripts, plan.script) == (False, None)
    assert plan.node_addresses("usw2-az2") == 4 * 32 + 2


def test_interfaces_for_efa_alone_take_one_address_of_each_node() -> None:
    for interface, addresses in (("efa", 4 * 32 + 2), ("efa-only", 4 + 2)):
        found, said = judged(changed({f"{WORKERS}/network_interface": interface}, of=SLURM))
        assert found is not None, said
        assert found.plan.node_addresses("usw2-az2") == addresses


def test_a_script_is_uploaded_with_its_folder() -> None:
    found, said = judged(changed({"hyperpod/on_init_complete": "lifecycle/on_create.sh"}, of=SLURM))
    assert found is not None, said
    assert (found.plan.uploads_scripts, found.plan.script) == (True, ("lifecycle", "on_create.sh"))


def test_the_file_system_is_where_compute_is() -> None:
    found, said = judged(changed({f"{WORKERS}/availability_zone_id": "usw2-az1"}, of=SLURM))
    assert found is not None, said
    assert found.plan.storage_zone == "usw2-az1"


def test_an_image_has_its_stack() -> None:
    found, said = judged(changed({"image": {}}, of=SLURM))
    assert found is not None, said
    assert stacks(found.plan) == ["Network", "Storage", "Image", "HyperPod"]
    none, said = judged(changed({"image": None}, of=SLURM))
    assert none is not None, said
    assert none.plan.built_image is None
