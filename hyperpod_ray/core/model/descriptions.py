"""What each setting is, as the docstring below it says: for the JSON Schemas, the page of settings and messages.

Pydantic can read these docstrings while a class is created (`use_attribute_docstrings`): every command would pay.
"""

import ast
import functools
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue


@functools.cache
def descriptions(section: type[BaseModel]) -> Mapping[str, str]:
    """The docstring of each field that has one, those of the section's bases included."""
    texts: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            texts |= _written(base)
    return texts


def _written(section: type[BaseModel]) -> Mapping[str, str]:
    """Docstrings in the body of one class."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    texts: dict[str, str] = {}
    if isinstance(definition, ast.ClassDef):
        for field, text in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match text:
                    case ast.Expr(value=ast.Constant(value=str(words))):
                        texts[field.target.id] = inspect.cleandoc(words)
    return texts


class Described(GenerateJsonSchema):
    """JSON Schema of sections, each property with its description."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """The section's schema; a description that the field itself has stays."""
        document = super().model_schema(schema)
        for name, text in descriptions(schema["cls"]).items():
            if name in document.get("properties", {}):
                document["properties"][name].setdefault("description", text)
        return document
