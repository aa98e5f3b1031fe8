"""Target column and its predictors."""

from __future__ import annotations

from hushtable.errors import ParameterError
from hushtable.methods.base import schema_problems
from hushtable.methods.diffgen.generalized_table import COUNT, NOISY_COUNT
from hushtable.schema import Categorical, Schema


def target_and_predictors(
    schema: Schema, target: str | None, *, method: str
) -> tuple[str, tuple[str, ...]]:
    """Return the target (by default the schema's) and all other columns; or refuse.

    Examples
    --------
    >>> from hushtable.datasets import sample_schema
    >>> target_and_predictors(sample_schema(), "sex", method="diffgen")
    ('sex', ('age', 'region', 'smoker', 'diagnosis'))
    """
    target = target if target is not None else schema.target
    problems = [
        *_target_problems(schema, target),
        *schema_problems(schema, method, (COUNT, NOISY_COUNT)),
    ]
    if problems or target is None:
        raise ParameterError(problems)
    return target, tuple(name for name in schema.attributes if name != target)


def _target_problems(schema: Schema, target: str | None) -> list[str]:
    """List the reasons why a column cannot be the target."""
    if target is None:
        return ["target is missing; name the column to predict, or set role: target in the schema."]
    if target not in schema.attributes:
        return [
            f"target is {target!r}, which is not published; published columns are "
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
        problems.append(f"target {target!r} has only one value; choose a target with at least two.")
    if len(schema.attributes) == 1:
        problems.append(f"target {target!r} is the only column; publish at least one predictor.")
    return problems
