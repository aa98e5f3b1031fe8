"""Example inputs for the contract checks of a method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from hushtable.datasets import sample, sample_schema
from hushtable.methods.base import Method
from hushtable.schema import Numeric, Schema


@dataclass(frozen=True)
class Example:
    """A method with parameters, and the inputs it is checked on.

    Parameters
    ----------
    method : Method
        The method, with its parameters.
    schema : Schema
        A schema that the method supports. By default, that of the embedded sample.
    table : pyarrow.Table
        A few hundred artificial rows that match the schema. By default, the embedded sample.
    questions : tuple of str
        WHERE clauses that its releases must answer. By default, one or two for each column.
    n_counted : int, optional
        True value of ``count("TRUE")``. By default, the number of rows.
    has_rows : bool, default=True
        Whether a release has rows (`Release.frame`). If not, `Release.frame` must raise an error.
    refuses_few : str
        Regular expression that the error for a table with one row must match. Empty if every table
        is published, including an empty one.
    seed : int, default=7
        Seed of the run that is repeated.

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
