"""What each variant puts into Kubernetes is what its record holds: a property changes only in review."""

from __future__ import annotations

import pytest

from hyperpod_ray import k8s
from tests.k8s.conftest import VARIANTS, Rendered
from tests.support import records
from tests.support.recorded import BASE_OF_OBJECTS, FILES_OF_OBJECTS, OBJECTS, objects, objects_of_file, recorded


def test_the_objects_are_those_of_the_record(variant: Rendered, bindings: k8s.Bindings) -> None:
    today = objects(variant.plan, variant.manifests, bindings)
    base = None if variant.name == BASE_OF_OBJECTS else recorded(OBJECTS, BASE_OF_OBJECTS)
    assert records.difference(OBJECTS / f"{variant.name}.txt", today, base=base) == ""


@pytest.mark.parametrize("name", FILES_OF_OBJECTS)
def test_the_objects_of_files_are_those_of_the_record(name: str, bindings: k8s.Bindings) -> None:
    today = objects_of_file(name, bindings)
    assert records.difference(OBJECTS / f"{name}.txt", today, base=recorded(OBJECTS, BASE_OF_OBJECTS)) == ""


def test_no_record_is_of_nothing() -> None:
    assert {file.stem for file in OBJECTS.glob("*")} == {*VARIANTS, *FILES_OF_OBJECTS}
