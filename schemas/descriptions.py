"""What stands below the fields of a model, for documents that are generated from it.

Pydantic can do this (``use_attribute_docstrings``), but reads and parses the source of every model
at every start of a process.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise

from pydantic import BaseModel


def descriptions_of(model: type[BaseModel]) -> dict[str, str]:
    """By field, inherited ones included."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            found |= _own(cls)
    return found


def _own(model: type[BaseModel]) -> dict[str, str]:
    (definition,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for statements in pairwise(definition.body):
        match statements:
            case (
                ast.AnnAssign(target=ast.Name(id=field)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[field] = inspect.cleandoc(text)
    return found
