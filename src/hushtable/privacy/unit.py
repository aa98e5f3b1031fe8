"""Unit of privacy and neighbor relation."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import GetJsonSchemaHandler, ModelWrapValidatorHandler, StrictInt, model_validator
from pydantic_core import CoreSchema

from hushtable.errors import ParameterError
from hushtable.privacy.values import FrozenValue

Neighbors = Literal["add-remove", "replace"]
"""Neighbor relation: one unit is added or removed, or replaced by another."""


class Unit(FrozenValue):
    """Unit of privacy: one row, one person with a bounded number of rows, or one node.

    Parameters
    ----------
    kind : {"row", "person", "node"}
        One row, all rows of a person, or a node of a graph with all its edges.
    column : str, optional
        For ``person``: the column that identifies the person.
    max_rows : int, optional
        For ``person``: the largest number of rows that are used per person.

    Examples
    --------
    >>> Unit(kind="person", column="patient", max_rows=3).describe()
    "one person (column 'patient', at most 3 rows used)"
    >>> Unit.model_validate("row") == Unit(kind="row")
    True
    """

    kind: Literal["row", "person", "node"]
    column: str | None = None
    max_rows: StrictInt | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _shorthand(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # ``unit: row`` in a schema file is short for ``unit: {kind: row}``.
        if isinstance(value, str):
            value = {"kind": value}
        elif isinstance(value, dict):
            value = {str(name): given for name, given in value.items()}  # YAML allows ``{0: ...}``
        unit = handler(value)
        unit._check()
        return unit

    def _check(self) -> None:
        problems = []
        if self.kind == "person":
            if not self.column:
                problems.append("unit person: set column to the column that identifies the person.")
            if self.max_rows is None:
                problems.append("unit person: set max_rows, the most rows used of one person.")
            elif self.max_rows < 1:
                problems.append(f"unit person: max_rows is {self.max_rows}; it must be at least 1.")
        elif self.column is not None or self.max_rows is not None:
            problems.append(
                f"unit {self.kind}: column and max_rows are for unit person only; leave them out."
            )
        ParameterError.raise_if_any(problems)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the short form, a string such as ``row``, to the JSON Schema."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        full = dict(schema)
        schema.clear()
        schema["title"] = full.pop("title")
        schema["description"] = full.pop("description")
        schema["anyOf"] = [{"type": "string", "enum": ["row", "node"]}, full]
        return schema

    def describe(self) -> str:
        """Return a description of the unit in words.

        Examples
        --------
        >>> Unit(kind="node").describe()
        'one node with all its edges'
        """
        if self.kind == "row":
            return "one row"
        if self.kind == "node":
            return "one node with all its edges"
        used = "1 row" if self.max_rows == 1 else f"{self.max_rows} rows"
        return f"one person (column '{self.column}', at most {used} used)"
