"""The column that is to be predicted, and those it is predicted by."""

from __future__ import annotations

from hushtable.errors import ParameterError
from hushtable.methods.base import misfits
from hushtable.methods.diffgen.generalized_table import COUNT, NOISY_COUNT
from hushtable.schema import Categorical, Schema


def target_and_predictors(
    schema: Schema, target: str | None, *, method: str
) -> tuple[str, tuple[str, ...]]:
    """Give the column to predict, the schema's target if none is named, and all others; or refuse.

    Examples
    --------
    >>> from hushtable.datasets import sample_schema
    >>> target_and_predictors(sample_schema(), "sex", method="diffgen")
    ('sex', ('age', 'region', 'smoker', 'diagnosis'))
    """
    target = target if target is not None else schema.target
    problems = [*_target_problems(schema, target), *misfits(schema, method, (COUNT, NOISY_COUNT))]
    if problems or target is None:
        raise ParameterError(problems)
    return target, tuple(name for name in schema.attributes if name != target)


def _target_problems(schema: Schema, target: str | None) -> list[str]:
    """List what makes a column unfit for being predicted."""
    if target is None:
        return ["target is missing; name the column to predict, or give one role: target."]
    if target not in schema.attributes:
        return [
            f"target is {target!r}, which is not a published column; the schema has "
            f"{', '.join(schema.attributes)}."
        ]
    column = schema.attributes[target]
    if not isinstance(column, Categorical):
        return [
            f"target {target!r} is numeric; only a categorical column can be predicted. List its "
            "values, or group them into classes first."
        ]
    problems = []
    if column.size < 2:
        problems.append(f"target {target!r} has one value; there is nothing to predict.")
    if len(schema.attributes) == 1:
        problems.append(f"target {target!r} is the only column; nothing is left to predict it by.")
    return problems
