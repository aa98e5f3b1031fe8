"""Output of a quilt run: the published tables, and the settings that the estimator reads.

The release
-----------
Five tables:

- ``data``: synthetic rows, in the columns and values of the schema.
- ``measured``: every noisy table that was measured, one row per cell: ``table`` (its index in the
  list ``tables`` of the settings), ``cell`` (the cell's index in C order), ``count`` (the noisy
  count: unbiased, may be negative).
- ``buckets``: ``column`` (its index in the schema), ``value`` (index of a counted value; if missing
  values are counted, their index is the last), ``bucket``, and ``share``, the estimated share of
  rows.
- ``factors``: the log-factors of the fitted model: ``table``, ``cell``, ``factor``. The first
  tables are the columns in order. Then come the groups of columns of level ``buckets``, once for
  each resolution, in the order of their first occurrence in ``tables``. The density of a row of
  buckets is proportional to the product of the buckets' shares times the exponential of the sum of
  the factors. Between the centers of coarse cells, factors are interpolated linearly. See
  `hushtable.methods.quilt.model.LogLinearModel`.
- ``candidates``: the candidates of the last round: ``columns`` (their indices), ``levels`` (their
  resolutions; 0 means all buckets), ``penalty`` and ``weight`` (see `ScoredTable`).

The settings of the estimator:

- ``total``, ``total_std``: the number of rows that the release represents, and its standard error
  (0: public).
- ``noise``: ``laplace`` or ``gaussian`` (both discrete), or ``rounded-gaussian``.
- ``rows_per_unit``: maximum number of rows of one unit.
- ``columns``: for each name the rule by which it was counted (``bins``: a taxonomy level, the
  lowest values of the bins of a numeric column, or null), the number of counted values
  (``n_values``) and of buckets (``n_buckets``).
- ``tables``: ``columns`` (names), ``level`` (``values``: the counted values of one column;
  ``buckets``), ``shape``, ``cells`` (for each column the cell of each value or bucket along its
  axis; null if each has its own), ``parameter`` (variance of the Gaussian, scale of the Laplace
  noise) and ``std``. One-way tables come first, in the order of the schema, then the coarser ones
  among those that determined the bins of wide numeric columns. In a series, earlier measurements
  follow: estimates of what these tables would be now, with ``earlier`` instead of ``parameter``,
  and a ``std`` that includes the noise and the drift of the counts.
- ``rounds``: for each round ``selection_epsilon``, ``sensitivity``, ``n_candidates``, and lists
  with an entry for each selected table: ``selected`` (indices of its columns), ``levels``,
  ``penalties``, ``weights``, ``absolute_errors`` (sum of absolute differences between the noisy
  table and the model's prediction before it), ``squared_errors`` (sum of squared differences) and
  ``squared_predictions`` (sum of squares of the prediction).
- ``fit``: ``effective_share`` of the particles, ``fit_errors`` and ``residuals`` of each table of
  the model in the order of ``factors`` (see `LogLinearModel.fit_error`,
  `LogLinearModel.residuals`), ``shrinkage``.
- ``workload``, if it has numeric statistics: for each its text (``item``), the noisy ``values`` of
  its sums in the order of `hushtable.methods.quilt.workload.WorkloadItem.functions`, their ``stds``
  (noise and rounding), ``weights``, and ``parameter`` (of the noise of `SCALE` times the weighted
  sums).
- ``prior``, if there was one: its ``columns``, ``prior_variance`` (variance of a cell's true count
  around the prior's count, per row of that count; null if no column is usable), and
  ``fitted_pairs``: the pairs whose prior marginals were fitted together with the noisy tables, in
  the order in which their factors follow those of the noisy tables; empty if the prior was dropped.
  The parameters identify the prior. If prior marginals of pairs were fitted before the spanning
  forest was measured, the forest is the first of ``rounds``.
- ``budget_shares``: shares of the budget by step, as fractions that sum to at most one.
- ``notes``: sentences for readers of the statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.methods.quilt.budget import BudgetShares, NoisyTable
from hushtable.methods.quilt.fit import FitState
from hushtable.methods.quilt.particles import Group
from hushtable.schema.codes import numbers

AxisCells = Sequence[NDArray[np.int64] | None]
"""For each axis of a table the cell of each value; None if each has its own."""


def tables_of(state: FitState) -> dict[str, pa.Table]:
    """Return the published tables other than the rows."""
    columns = state.columns
    buckets: dict[str, list[NDArray[Any]]] = {
        "bucket": [column.buckets.astype(np.int32) for column in columns],
        "share": [column.shares for column in columns],
    }
    factors = [table.theta for table in state.model.tables]
    return {
        "measured": _lists("table", "cell", {"count": _counts(state)}),
        "buckets": _lists("column", "value", buckets),
        "factors": _lists("table", "cell", {"factor": factors}),
        "candidates": _last_candidates(state),
    }


def _lists(whose: str, place: str, columns: Mapping[str, Sequence[NDArray[Any]]]) -> pa.Table:
    """Return a long table of several lists: index of the list, position in it, and the entries."""
    sizes = [len(one) for one in next(iter(columns.values()))]
    return pa.table(
        {
            whose: numbers(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)),
            place: numbers(np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])),
            **{name: numbers(np.concatenate(lists)) for name, lists in columns.items()},
        }
    )


def _counts(state: FitState) -> list[NDArray[Any]]:
    """Return the counts of all tables in the order of ``tables`` in the settings.

    One-way tables come first, then earlier measurements, then the other tables of this run.
    """
    paid = [table.counts for table in state.tables]
    if state.earlier is None:
        return list(paid)
    at = len(paid) - len(state.measurements)
    return [*paid[:at], *(table.counts for table in state.earlier.tables), *paid[at:]]


def _last_candidates(state: FitState) -> pa.Table:
    candidates = state.rounds[-1].candidates if state.rounds else []
    last = [candidate.scored for candidate in candidates]
    ends = np.cumsum([0, *(len(c.group) for c in last)], dtype=np.int32)
    members = np.array([column for c in last for column in c.group], np.int32)
    levels = np.array(
        [level for candidate in candidates for level in candidate.query.levels], np.int32
    )
    return pa.table(
        {
            "columns": pa.ListArray.from_arrays(numbers(ends), numbers(members)),
            "levels": pa.ListArray.from_arrays(numbers(ends), numbers(levels)),
            "penalty": numbers(np.array([c.penalty for c in last], np.int64)),
            "weight": numbers(np.array([c.weight for c in last], np.int32)),
        }
    )


_NOISE = {"pure": "laplace", "concentrated": "gaussian", "gaussian": "rounded-gaussian"}


def settings_of(state: FitState, budget: BudgetShares, n_rows: int) -> dict[str, Any]:
    """Return everything that the estimator needs besides the tables."""
    counted = [column.counted.values for column in state.columns]
    names = [v.name for v in counted]
    model, sizes = state.model, state.model.sizes
    tables = [_bought([v.name], [None], column.counted.table)
              for v, column in zip(counted, state.columns, strict=True)]  # fmt: skip
    tables += [
        _bought([v.name], [cells], table)
        for v, column in zip(counted, state.columns, strict=True)
        for table, cells in column.counted.cuts
    ]
    if state.earlier is not None:
        tables += [
            _described(
                table.columns, table.cells, table.shape,
                earlier=True, std=std, noise=std * table.noise_share**0.5,
            )
            for table, std in zip(state.earlier.tables, state.earlier.stds(), strict=True)
        ]  # fmt: skip
    tables += [
        _bought(
            [names[column] for column in measurement.query.group],
            [
                cells if level else None
                for level, cells in zip(
                    measurement.query.levels, measurement.query.maps, strict=True
                )
            ],
            measurement.table,
            measurement.query.shape,
        )
        for measurement in state.measurements
    ]
    fit_error, residual = model.fit_error(), model.residuals()
    more: dict[str, Any] = {}
    if state.earlier is not None:
        more["movement"] = state.earlier.movement
    if state.sums:
        more["workload"] = [sums.plain() for sums in state.sums]
    return {
        **more,
        "total": state.total,
        "total_std": state.total_std,
        "noise": _NOISE[budget.accounting],
        "rows_per_unit": budget.rows_per_unit,
        "columns": {
            v.name: {"bins": v.rule, "n_values": v.size, "n_buckets": size}
            for v, size in zip(counted, sizes, strict=True)
        },
        "tables": tables,
        "rounds": [made.plain() for made in state.rounds],
        "fit": {
            "effective_share": model.effective_share,
            "fit_errors": fit_error.round(4).tolist(),
            "residuals": residual.round(4).tolist(),
            "shrinkage": model.shrinkage,
        },
        "budget_shares": {step: str(share) for step, share in budget.spent.items()},
        "notes": _notes(state, budget, n_rows),
    }


def warnings_of(state: FitState, rows: str = "data") -> list[str]:
    """Return a warning if the model misses a one-way marginal, or was fitted to fewer tables.

    `rows` is the name of the table of synthetic rows.
    """
    names = [column.counted.values.name for column in state.columns]
    kept = [table for table in state.model.tables if not table.is_left_out]
    if len(kept) < len(state.model.tables) and not state.model.is_lost:
        pairs = _named(state, [table.group for table in kept if len(table.group) > 1])
        follow = f"a spanning forest of pairs ({', '.join(pairs)})" if pairs else "no pair"
        return [
            f"The model could not be fitted to all noisy tables. `{rows}` follows the one-way "
            f"tables and {follow}; other dependence between columns is missing from these rows. "
            "The noisy tables and answers computed from them are not affected."
        ]
    lost = state.model.lost_columns()
    if not lost:
        return []
    amiss = ", ".join(f"{names[column]} ({share:.1%})" for column, share in lost.items())
    return [
        f"The model could not be fitted, even after a restart. In `{rows}`, the counts of these "
        f"columns differ from their noisy counts (share of rows): {amiss}. Do not use these rows "
        "or model estimates. The noisy tables and answers computed from them are not affected."
    ]


def _bought(
    columns: Sequence[str], cells: AxisCells, table: NoisyTable, shape: Sequence[int] = ()
) -> dict[str, Any]:
    noise = table.noise
    shape = shape or [len(table.counts)]
    return _described(columns, cells, shape, parameter=str(noise.parameter), std=noise.std)


def _described(
    columns: Sequence[str], cells: AxisCells, shape: Sequence[int], **of_noise: Any
) -> dict[str, Any]:
    return {
        "columns": list(columns),
        "level": "buckets" if len(columns) > 1 else "values",
        "shape": list(shape),
        "cells": [None if places is None else places.tolist() for places in cells],
        **of_noise,
    }


def _named(state: FitState, groups: Sequence[Group]) -> list[str]:
    """Return the names of groups of columns."""
    names = [column.counted.values.name for column in state.columns]
    return [" x ".join(names[column] for column in group) for group in groups]


def _notes(state: FitState, budget: BudgetShares, n_rows: int) -> list[str]:
    groups = _named(state, [measurement.query.group for measurement in state.measurements])
    notes = [
        "`data` contains synthetic rows; no row describes a real person. `measured` contains the "
        "noisy tables behind them. Their counts are unbiased and may be negative; "
        "`statement.json` states the noise of each."
    ]
    if state.sums:
        items = ", ".join(sums.item.text for sums in state.sums)
        notes.append(f"Measured directly, without synthetic rows: {items}.")
    if any(state.column_priors):
        notes.append(
            "The rows also follow the prior named in the parameters, as far as the noisy tables "
            "agree with it."
            if state.pair_prior is not None
            else "The noisy tables show that the prior named in the parameters explains little of "
            "the dependence between columns, so it was not used for pairs of columns."
        )
    if groups:
        notes.append(f"Measured besides one-way tables: {', '.join(dict.fromkeys(groups))}.")
    merged = [c.counted.values.name for c in state.columns if c.n_buckets < c.counted.values.size]
    if merged:
        notes.append(
            f"Rare or neighboring values were merged before pairs were counted: {', '.join(merged)}"
            ". Values in the rows are drawn from the merged ones by the column's noisy counts."
        )
    if n_rows and state.total > 1.01 * n_rows:
        notes.append(f"Each row of `data` represents {state.total / n_rows:.3g} original rows.")
    shares = ", ".join(f"{step} {float(share):.3f}" for step, share in budget.spent.items())
    notes.append(f"Shares of the budget spent: {shares}.")
    if bad := _named(state, [table.group for table in state.model.unconverged()]):
        notes.append(
            f"The fit did not converge for {', '.join(bad)}: the rows follow these tables less "
            "closely than they could. The noisy tables themselves are not affected."
        )
    return notes
