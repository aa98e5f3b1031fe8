"""A method with parameters, and all that it is tried by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from hushtable.datasets import sample, sample_schema
from hushtable.methods.base import Method
from hushtable.schema import Numeric, Schema


@dataclass(frozen=True)
class Example:
    """Say by what a method is tried.

    Parameters
    ----------
    method : Method
        The method, with its parameters.
    schema : Schema
        A schema that it takes; by default that of the embedded sample.
    table : pyarrow.Table
        Some hundred rows that fit the schema, about nobody; by default the embedded sample.
    questions : tuple of str
        Clauses that its releases must answer; by default one or two about each column.
    n_counted : int, optional
        What ``count("TRUE")`` estimates, where that is not the number of rows.
    has_rows : bool
        Whether a release can be had as rows (`Release.frame`); otherwise asking for them must be
        refused.
    refuses_few : str
        What the refusal of a table of one row must contain, a regular expression; "" where every
        table is published, down to the empty one.
    seed : int
        The seed of the run that is repeated.

    Examples
    --------
    >>> from hushtable import DiffGen
    >>> print(*Example(DiffGen(epsilon=1)).questions[:3], sep=", ")
    "age" >= 50, "sex" = 'F', "region" = 'harbor'
    """

    method: Method
    schema: Schema = field(default_factory=sample_schema)
    table: pa.Table = field(default_factory=sample)
    questions: tuple[str, ...] = ()
    n_counted: int | None = None
    has_rows: bool = True
    refuses_few: str = ""
    seed: int = 7

    def __post_init__(self) -> None:
        if not self.questions:
            object.__setattr__(self, "questions", tuple(_about_each_column(self.schema)))


def _about_each_column(schema: Schema) -> Iterator[str]:
    for name, column in schema.attributes.items():
        quoted = '"' + name.replace('"', '""') + '"'
        if column.type == "categorical":
            value = column.values[0].replace("'", "''")
            yield f"{quoted} = '{value}'"
        elif isinstance(column, Numeric):
            yield f"{quoted} >= {column.value(column.n_values // 2)}"
        if column.missing == "category":
            yield f"{quoted} IS NULL"
