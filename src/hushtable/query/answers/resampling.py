"""Sampling of rows that reflect the uncertainty of noisy cells.

Clipping noisy counts at zero leaves positive noise in empty cells. If many cells are empty, too
many sampled rows are in cells without people. So the weights of cells are tilted (multiplied by the
exponential of a linear combination of functions) until means, squares and products match the
estimates from the unclipped noisy counts, which are unbiased.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.numeric import project_to_simplex
from hushtable.query.answers.cell_sums import PublishedCells
from hushtable.query.answers.published import Generator, place_inside
from hushtable.query.answers.row_sums import RowFunction, is_code, power, present
from hushtable.schema import Integer, Number
from hushtable.schema.recoding import Recoding

N_STEPS = 12
MOST = 4.0
"""Largest factor by which a weight changes in one step; bounds the effect of infeasible targets."""

_FEW_VALUES = 12  # largest size of a categorical column whose shares of values are matched
_MOST_NUMBERS = 20_000_000  # limit of functions times cells

_STICKS = 40  # atoms of a Dirichlet process; the last takes the rest, 3^-39 on average


def tilted(weights: Floats, values: Floats, wanted: Floats) -> Floats:
    """Multiply weights by the exponential of a sum of functions until their means match targets.

    Infeasible targets are matched as closely as the step limit allows.

    Parameters
    ----------
    weights : array (rows,)
        Non-negative weights.
    values : array (functions, rows)
        Value of each function in each row.
    wanted : array (functions,)
        Target means.

    Examples
    --------
    >>> even, values = np.ones(3), np.array([[0.0, 1.0, 2.0]])
    >>> round(float(np.average(values[0], weights=tilted(even, values, np.array([1.5])))), 3)
    1.5
    """
    for _ in range(N_STEPS):
        shares = weights / weights.sum()
        means = values @ shares
        apart = values - means[:, None]
        spread = (apart * shares) @ apart.T
        # The ridge keeps steps finite if the targets are infeasible.
        ridge = 1e-3 * np.diag(np.maximum(spread.diagonal(), 1e-9))
        step = np.linalg.solve(spread + ridge, wanted - means)
        moved = np.clip(step @ apart, -np.log(MOST), np.log(MOST))
        weights = weights * np.exp(moved)
        if float(np.max(np.abs(wanted - means))) < 1e-5:
            break
    return weights


def redrawn_cells(
    cells: PublishedCells, counts: NDArray[Any], variance: float, rng: Generator
) -> tuple[dict[str, Integers], Floats]:
    """Sample rows from noisy cells, after adding noise that reflects the uncertainty of the counts.

    Return the codes of the rows, and their weights, which are all 1.

    The position of rows inside a generalized code is unknown. It is sampled from a Dirichlet
    process around the uniform distribution, the same for all cells, with concentration 1/2, because
    rows often cluster at an end.

    Parameters
    ----------
    cells : PublishedCells
        The cells.
    counts : array
        Noisy count of each cell.
    variance : float
        Variance of the noise of a count.
    rng : Generator
        Random generator.

    Examples
    --------
    >>> from hushtable.schema import Schema
    >>> schema = Schema.from_dict(
    ...     {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 1}}})
    >>> cells = PublishedCells(schema, {}, {"x": np.array([0, 1])})
    >>> rows, _ = redrawn_cells(cells, np.array([90.0, 10.0]), 1.0, np.random.default_rng(1))
    >>> len(rows["x"]), bool(rows["x"].mean() < 0.5)
    (100, True)
    """
    total = max(1.0, float(counts.sum()))
    drawn = counts + rng.normal(0.0, variance**0.5, len(counts))
    weights = project_to_simplex(drawn, total)
    functions = _matched_functions(cells)
    if functions and drawn.sum() > 0:
        values = np.stack([cells.means(function) for function in functions])
        weights = tilted(weights, values, values @ drawn / drawn.sum())
    rows = rng.choice(len(weights), round(total), p=weights / weights.sum())
    found = {name: own[rows] for name, own in cells.codes.items()}
    piece = rng.choice(_STICKS, len(rows), p=_broken_stick(rng))
    for name, recoding in cells.recode.items():
        if name in found:
            assert isinstance(recoding, Recoding)  # noqa: S101 - no cell of these is a covering
            found[name] = place_inside(recoding, found[name], rng.random(_STICKS)[piece])
    return found, np.ones(len(rows))


def _matched_functions(cells: PublishedCells) -> list[RowFunction]:
    """List the functions whose means are matched, as many as memory allows.

    These are, in this order: indicators that a number is present, numbers, their squares and
    products, shares of values of small categorical columns, and products of shares with numbers.
    """
    columns = {name: cells.schema.attributes[name] for name in cells.codes}
    numbers = {
        name: power(name, column, 1)
        for name, column in columns.items()
        if isinstance(column, Integer | Number)
    }
    there = [present(name, columns[name]) for name in numbers if _may_lack(columns[name])]
    made = [*there, *numbers.values(), *(one * one for one in numbers.values())]
    made += [one * two for one, two in combinations(numbers.values(), 2)]
    shares = [
        is_code(name, column, code)
        for name, column in columns.items()
        if name not in numbers and column.size <= _FEW_VALUES
        for code in range(1, column.size)
    ]
    made += shares
    made += [share * one for share in shares for one in (*there, *numbers.values())]
    return made[: _MOST_NUMBERS // max(1, cells.n_cells)]


def _may_lack(column: Any) -> bool:
    return bool(column.size > column.n_values)


def _broken_stick(rng: Generator) -> Floats:
    """Sample the weights of a Dirichlet process with concentration 1/2 (Sethuraman 1994).

    Examples
    --------
    >>> draws = np.array([_broken_stick(np.random.default_rng(seed)) for seed in range(2000)])
    >>> bool(np.allclose(draws.sum(axis=1), 1)), round(float((draws**2).sum(axis=1).mean()), 1)
    (True, 0.7)
    """
    parts = np.append(1 - rng.random(_STICKS - 1) ** 2, 1.0)  # the last takes the rest
    return np.asarray(parts * np.concatenate([[1.0], np.cumprod(1 - parts[:-1])]))
