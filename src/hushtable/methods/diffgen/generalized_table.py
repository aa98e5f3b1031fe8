"""Published table of a generalized release: labels, class, raw and non-negative counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hushtable.errors import ParameterError, unpublished
from hushtable.methods.base import PurePlan, Released, schema_problems
from hushtable.numeric import project_integers_to_simplex
from hushtable.query.answers.association_loss import kept_in_cells
from hushtable.query.answers.cell_sums import COUNT, NOISY_COUNT
from hushtable.schema import Categorical, Schema
from hushtable.schema.codes import to_labels
from hushtable.schema.recoding import Intervals, Recoding, ValueGroups

if TYPE_CHECKING:
    from hushtable.privacy.mechanisms.cells import NoisyCells


def generalized_table(
    schema: Schema,
    recode: Mapping[str, Recoding],
    counted: Sequence[str],
    cells: NoisyCells,
    *,
    total: int | None = None,
    consistent: bool = False,
    exact: bool = False,
) -> pa.Table:
    """Return groups as rows of labels, in the order of the domain.

    Parameters
    ----------
    schema : Schema
        The public schema.
    recode : mapping of str to Recoding
        Cut of each generalized column; others keep their values.
    counted : sequence of str
        Columns of `cells`; a column that is not among them has one label for all rows.
    cells : NoisyCells
        The groups and their raw noisy counts.
    total : int or None
        Published number of rows, for consistent counts.
    consistent : bool
        Whether counts are fitted to the total instead of clipped at 0.
    exact : bool
        Whether the counts have no noise, so that there are no separate raw counts.
    """
    table = {}
    for name, column in schema.attributes.items():
        codes = (
            cells.codes[:, counted.index(name)]
            if name in counted
            else np.zeros(len(cells.noisy), np.int64)
        )
        table[name] = to_labels(column, codes, recode.get(name))
    raw = cells.noisy
    if consistent:
        fitted = project_integers_to_simplex(raw, int(raw.sum()) if total is None else total)
    else:
        fitted = np.maximum(raw, 0)
    table[COUNT] = pa.array(fitted, pa.int64())
    if not exact:
        table[NOISY_COUNT] = pa.array(raw, pa.int64())
    return pa.table(table)


def plain_cut(recoding: Recoding) -> dict[str, Any]:
    """Return a cut as plain data for the statement."""
    codes: dict[str, Any] = {}
    if isinstance(recoding, Intervals):
        codes["starts"] = list(recoding.starts)
    elif isinstance(recoding, ValueGroups):
        codes["groups"] = list(recoding.groups)
    return {
        "labels": list(recoding.labels),
        "n_values": recoding.n_values,
        "has_missing": recoding.has_missing,
        **({"special": list(recoding.special)} if recoding.special else {}),
        **codes,
    }


def read_cut(cut: Mapping[str, Any]) -> Recoding:
    """Read a cut from plain data."""
    known = (tuple(cut["labels"]), int(cut["n_values"]), bool(cut["has_missing"]))
    if "starts" in cut:
        special = tuple(cut.get("special", ()))
        return Intervals(*known, tuple(cut["starts"]), special=special)
    return ValueGroups(*known, tuple(cut["groups"]))


class GeneralizedPlan(PurePlan[Any]):
    """Base class of plans that publish generalized groups."""

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the association left after sampling values from inside generalized groups."""
        settings = released.settings
        recode = {name: read_cut(cut) for name, cut in settings["columns"].items()}
        count = COUNT if settings["rate"] is None else NOISY_COUNT
        return kept_in_cells(self.schema, recode, released.tables["data"], count)


# Target column and its predictors.


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
    if problems := unpublished([target], schema.attributes, "target"):
        return problems
    column = schema.attributes[target]
    if not isinstance(column, Categorical):
        return [
            f"target {target!r} is numeric; only a categorical column can be predicted. List its "
            "values, or group them into classes first."
        ]
    if column.size < 2:
        problems.append(f"target {target!r} has only one value; choose a target with at least two.")
    if len(schema.attributes) == 1:
        problems.append(f"target {target!r} is the only column; publish at least one predictor.")
    return problems
