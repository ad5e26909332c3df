"""Every rule answers as its record says, and what it encodes is what others know of the services."""

from __future__ import annotations

from hyperpod_ray_rules import data, hyperpod, kueue
from tests.service_rules import answers
from tests.support import records


def test_answers_are_those_of_the_record() -> None:
    assert records.difference(answers.FILE, answers.answers()) == ""


def test_partitions_of_gpus_are_those_of_the_service(enumerations: dict[str, set[str]]) -> None:
    own = {profile for name in enumerations["ClusterInstanceType"] for profile in kueue.mig_profiles(name)}
    assert own == enumerations["MIGProfileType"]


def test_partitions_fill_the_gpu_and_no_more() -> None:
    """A profile names compute slices and memory: seven slices are the GPU, and its memory is what the GPU has."""
    for name in data.instance_types():
        for profile in kueue.mig_profiles(name):
            slices, gigabytes = profile.removeprefix("mig-").removesuffix("gb").split("g.")
            (whole,) = [profile for profile in kueue.mig_profiles(name) if profile.startswith("mig-7g.")]
            most = int(whole.removeprefix("mig-7g.").removesuffix("gb"))
            assert int(slices) in (1, 2, 3, 4, 7)
            assert int(gigabytes) * 8 <= most * 8 * (1 if slices in "347" else 0.5)


def test_accelerated_families_are_those_with_accelerators(enumerations: dict[str, set[str]]) -> None:
    """Where no figures are known the family decides: for every type with figures both must agree."""
    unknown, known = hyperpod.Where(types={}), hyperpod.Where()
    for name in enumerations["ClusterInstanceType"] & data.instance_types().keys():
        assert unknown.accelerated(name) == known.accelerated(name), name
