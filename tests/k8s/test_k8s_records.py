"""What each variant puts into Kubernetes is what its record holds: a property changes only in review."""

from __future__ import annotations

from hyperpod_ray import k8s
from tests.k8s.conftest import VARIANTS, Rendered
from tests.support import records
from tests.support.recorded import BASE_OF_OBJECTS, OBJECTS, objects, recorded


def test_the_objects_are_those_of_the_record(variant: Rendered, bindings: k8s.Bindings) -> None:
    today = objects(variant.plan, variant.manifests, bindings)
    base = None if variant.name == BASE_OF_OBJECTS else recorded(OBJECTS, BASE_OF_OBJECTS)
    assert records.difference(OBJECTS / f"{variant.name}.txt", today, base=base) == ""


def test_no_record_is_of_nothing() -> None:
    assert {file.stem for file in OBJECTS.glob("*")} == VARIANTS.keys()
