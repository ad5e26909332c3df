from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from kubernetes.utils.quantity import parse_quantity

from hyperpod_ray_rules import quantity

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
