"""What each setting is, as the docstring below it says: for schemas, pages and messages."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from hyperpod_ray.core.model.descriptions import Described, descriptions


class Base(BaseModel):
    """Not a field's."""

    inherited: int = 1
    """Of the base."""
    changed: int = 1
    """Before."""


class Section(Base):
    """A section."""

    changed: int = 2
    """After.

    A second paragraph.
    """
    silent: int = 3
    own: int = Field(default=4, description="The field's own.")
    """Another."""
    last: int = 6


class AsPydantic(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)

    changed: int = 2
    """After.

    A second paragraph.
    """
    silent: int = 3


def test_a_field_has_the_docstring_below_it_and_that_of_a_base() -> None:
    assert descriptions(Section) == {
        "inherited": "Of the base.", "changed": "After.\n\nA second paragraph.", "own": "Another.",
    }  # fmt: skip
    assert descriptions(BaseModel) == {}


def test_it_reads_what_pydantic_reads() -> None:
    """https://docs.pydantic.dev/latest/api/config/ (`use_attribute_docstrings`)."""
    told = {name: field.description for name, field in AsPydantic.model_fields.items() if field.description}
    assert descriptions(AsPydantic) == told


def test_a_schema_has_them_and_a_description_of_the_fields_own_stays() -> None:
    properties = Section.model_json_schema(schema_generator=Described)["properties"]
    described = {name: value.get("description") for name, value in properties.items()}
    assert described == {
        "inherited": "Of the base.", "changed": "After.\n\nA second paragraph.", "silent": None,
        "own": "The field's own.", "last": None,
    }  # fmt: skip
