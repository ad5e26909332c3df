"""Every rule answers as its record says, and what it encodes is what others know of the services."""

from __future__ import annotations

import itertools
from fractions import Fraction

import botocore.session
import pytest
from kubernetes.utils.quantity import parse_quantity

from hyperpod_ray_rules import data, hyperpod, kueue, quantity, training_plan
from tests.service_rules import answers
from tests.support import records


def test_answers_are_those_of_the_record() -> None:
    assert records.difference(answers.FILE, answers.answers()) == ""


@pytest.fixture(scope="module")
def enumerations() -> dict[str, set[str]]:
    """What botocore's models enumerate."""
    sagemaker = botocore.session.get_session().get_service_model("sagemaker")
    return {
        name: set(getattr(sagemaker.shape_for(name), "enum"))  # noqa: B009  (some shapes have none)
        for name in (
            "MIGProfileType", "TrainingPlanStatus", "SageMakerResourceName", "ReservedCapacityInstanceType",
            "ClusterInstanceType",
        )
    }  # fmt: skip


def test_partitions_of_gpus_are_those_of_the_service(enumerations: dict[str, set[str]]) -> None:
    own = {profile for name in enumerations["ClusterInstanceType"] for profile in kueue.mig_profiles(name)}
    assert own == enumerations["MIGProfileType"]


def test_partitions_fill_the_gpu_and_no_more() -> None:
    """A profile names compute slices and memory: seven slices are the GPU, and its memory is what the GPU has."""
    for name in data.instance_types():
        for profile in kueue.mig_profiles(name):
            slices, gigabytes = profile.removeprefix("mig-").removesuffix("gb").split("g.")
            (whole,) = [each for each in kueue.mig_profiles(name) if each.startswith("mig-7g.")]
            most = int(whole.removeprefix("mig-7g.").removesuffix("gb"))
            assert int(slices) in (1, 2, 3, 4, 7)
            assert int(gigabytes) * 8 <= most * 8 * (1 if slices in "347" else 0.5)


def test_words_of_training_plans_are_those_of_the_service(enumerations: dict[str, set[str]]) -> None:
    assert set(training_plan.USABLE) <= enumerations["TrainingPlanStatus"]
    assert training_plan.TARGET in enumerations["SageMakerResourceName"]
    assert set(data.training_plan_types()) <= enumerations["ReservedCapacityInstanceType"]


def test_accelerated_families_are_those_with_accelerators(enumerations: dict[str, set[str]]) -> None:
    """Where no figures are known the family decides: for every type with figures both must agree."""
    unknown, known = hyperpod.Where(types={}), hyperpod.Where()
    for name in enumerations["ClusterInstanceType"] & data.instance_types().keys():
        assert unknown.accelerated(name) == known.accelerated(name), name


SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@pytest.mark.parametrize(
    "text", [f"{number}{suffix}" for number, suffix in itertools.product(("0", "1", "2.5", "-3", "1024"), SUFFIXES)]
)
def test_quantities_are_those_of_the_kubernetes_client(text: str) -> None:
    assert quantity.number(text) == Fraction(parse_quantity(text))


@pytest.mark.parametrize("text", ["1e3", "1E3", "2.5e-2", "+4", "1.", ".5", "12E"])
def test_exponents_are_read_as_kubernetes_does(text: str) -> None:
    expected = 12 * 10**18 if text == "12E" else Fraction(text.removesuffix("."))
    assert quantity.number(text) == expected


@pytest.mark.parametrize(
    "text", ["", "Gi", "1gi", "1KB", "one", "1 Gi", "1Gi1", "None", "1/2", "1_000", "1e3Ki", "0x10", "inf", "nan", "."]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """By the expression of k8s.io/apimachinery: `^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$`."""
    with pytest.raises(ValueError, match=r"quantity of Kubernetes"):
        quantity.number(text)
