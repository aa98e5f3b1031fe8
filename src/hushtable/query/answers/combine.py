"""Multiple synthetic frames from one release, and estimates combined from them.

A frame is sampled in two steps: weights that reflect the uncertainty of the release, then rows by
weight. A statistic computed from m frames varies between them because of the noise of the release
and the sampling of rows. The latter equals the sampling error of the statistic, which the variance
within a frame estimates. So, following Rubin (1987) and Raghunathan, Reiter and Rubin (2003), let b
be the variance between frames and u the mean variance within them. The error has

- for the population, the variance b (1 + 1/m),
- for the people in the table, the variance b (1 + 1/m) - u, but at least b/m,

and Student's t distribution with m - 1 degrees of freedom. This is valid for statistics that the
noisy tables of the release determine. Frames show other dependence as a model does, without its
error, so `combine` refuses statistics that depend on columns that were not measured together. It
finds these columns by shuffling each of them in one frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.errors import ParameterError, Refused
from hushtable.files.memory import require_memory
from hushtable.numeric import CONFIDENCE, bisect
from hushtable.query.answers.estimator import Estimate, Estimator, Scope
from hushtable.query.answers.published import Generator, encoded, fresh
from hushtable.query.answers.table import EstimateTable
from hushtable.query.where import parse
from hushtable.schema import Schema
from hushtable.schema.codes import numbers, to_labels

COMBINED = (
    "Combined from several frames. The interval covers noise in the measured counts; dependence "
    "inside merged values and public bins is that of the frames."
)
Statistic = Callable[[pa.Table], Any]


def generator(seed: int | None) -> Generator:
    """Return a generator with the given seed, or an unpredictable one."""
    return fresh() if seed is None else np.random.default_rng(seed)


def drawn_frame(estimator: Estimator, rng: Generator, n: int | None = None) -> pa.Table:
    """Sample a frame that reflects the uncertainty of a release."""
    codes, weights = estimator.redrawn(rng)
    size = round(float(weights.sum())) if n is None else n
    _require_rows(size, len(codes))
    rows = rng.choice(len(weights), size, p=weights / weights.sum())
    return pa.table(
        {
            name: to_labels(column, codes[name][rows])
            for name, column in estimator.schema.attributes.items()
            if name in codes
        }
    )


def _require_rows(n: int, n_columns: int) -> None:
    require_memory(8 * n * (n_columns + 2), f"a table of {n:,} rows")


def some_rows(
    schema: Schema, frame: pa.Table, n: int | None, where: str | None, rng: Generator
) -> pa.Table:
    """Sample n rows of a frame that satisfy a condition; return all of them if n is None.

    If fewer than n rows satisfy the condition, rows repeat.
    """
    if n is not None and n < 0:
        raise ParameterError(f"n is {n}; it must be at least 0.")
    _require_rows(n or 0, frame.num_columns)
    there = np.arange(frame.num_rows)
    if where is not None:
        known = schema.of_rows([name for name in schema.attributes if name in frame.column_names])
        there = np.flatnonzero(parse(where, known).mask(encoded(known, frame)))
    if n is None:
        return frame.take(numbers(there))
    if n and not len(there):
        raise ParameterError(f"no published row satisfies {where!r}; omit n.")
    whole, rest = divmod(n, max(1, len(there)))
    chosen = [np.tile(there, whole), rng.choice(there, rest, replace=False)] if n else [there[:0]]
    taken: Integers = np.concatenate(chosen)
    rng.shuffle(taken)
    return frame.take(numbers(taken))


def require_measured(
    frame: pa.Table,
    compute: Statistic,
    is_measured: Callable[[Sequence[str]], bool],
    rng: Generator,
) -> None:
    """Raise `Refused` if a statistic depends on columns that were not measured together."""
    if is_measured(frame.column_names):
        return
    plain, joint = _values(compute(frame)), []
    for place, name in enumerate(frame.column_names):
        order = pa.array(rng.permutation(frame.num_rows))
        mixed = frame.set_column(place, name, frame.column(name).take(order))
        if not np.allclose(_values(compute(mixed)), plain, rtol=1e-9, atol=0, equal_nan=True):
            joint.append(name)
    if not is_measured(joint):
        raise Refused(
            f"the statistic changes with the joint distribution of {', '.join(joint)}, which no "
            "published table contains: frames show it as a model does, so no interval would be "
            "valid. Use mean(), regression() and other answers, which allow for this, or compute "
            "it from the rows of frames(), without an interval."
        )


def _values(found: Any) -> list[float]:
    """Return the numbers of a statistic, without their variances."""
    return [_pair(one)[0] for one in (found.values() if isinstance(found, Mapping) else [found])]


def combine(
    frames: Sequence[pa.Table], compute: Statistic, *, scope: Scope
) -> Estimate | EstimateTable:
    """Compute a statistic from each frame and combine the results.

    Parameters
    ----------
    frames : sequence of table
        At least two frames.
    compute : callable
        Takes a frame; returns a number and its variance as a pair, or a mapping of names to such
        pairs. The variance is the one for rows that are a sample of people.
    scope : {"people", "population"}
        Target of the interval.
    """
    if len(frames) < 2:
        raise ParameterError(f"there are {len(frames)} frames; combining needs at least 2.")
    found = [compute(frame) for frame in frames]
    if not isinstance(found[0], Mapping):
        return _combined([_pair(one) for one in found], scope, "combined")
    names = list(found[0])
    estimates = [_combined([_pair(one[name]) for one in found], scope, name) for name in names]
    return EstimateTable(("term",), tuple((name,) for name in names), tuple(estimates))


def _pair(found: Any) -> tuple[float, float]:
    try:
        value, variance = found
        return float(value), float(variance)
    except (TypeError, ValueError):
        raise ParameterError(
            "the function must return a number and its variance, or a mapping of "
            f"names to such pairs, not {type(found).__name__}."
        ) from None


def _combined(pairs: Sequence[tuple[float, float]], scope: Scope, what: str) -> Estimate:
    values, within = np.array(pairs).T
    m = len(pairs)
    between, inside = float(values.var(ddof=1)), float(within.mean())
    variance = between * (1 + 1 / m)
    noise = max(variance - inside, between / m)
    used = variance if scope == "population" else noise
    half = _student(m - 1) * math.sqrt(used)
    value = float(values.mean())
    return Estimate(
        value=value,
        low=value - half,
        high=value + half,
        privacy_std=math.sqrt(noise),
        model_std=0.0,
        sampling_std=math.sqrt(max(0.0, inside)),
        scope=scope,
        what=what,
        notes=(COMBINED,),
        support="tested",
    )


def _student(freedom: int) -> float:
    """Return the 95% half-width of Student's t distribution.

    Examples
    --------
    >>> [round(_student(n), 2) for n in (1, 2, 4, 19)]
    [12.71, 4.3, 2.78, 2.09]
    """

    def is_below(angle: float) -> bool:
        """Return whether sqrt(freedom) tan(angle) is too short (Abramowitz and Stegun, 26.7.3)."""
        odd = freedom % 2
        term, total = math.cos(angle) if odd else 1.0, 0.0
        for k in range(1 + odd, freedom, 2):
            total += term
            term *= math.cos(angle) ** 2 * k / (k + 1)
        share = math.sin(angle) * total
        return (2 / math.pi * (angle + share) if odd else share) < CONFIDENCE

    angle, _ = bisect(is_below, 0.0, math.pi / 2, steps=60)
    return math.sqrt(freedom) * math.tan(angle)
