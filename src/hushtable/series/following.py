"""Synthetic people of a panel: rows of a wave that continue those of the previous wave.

The model of a wave describes the dependence between its columns, and rows drawn from it are what
the wave would publish without a panel. Noisy tables of each column before and now describe
transitions. People who stay start with their row of the previous release; others start with a drawn
row. Then values, and who stays, are changed as long as the counts of pairs of columns come closer
to those of the drawn rows and the transitions to the measured ones, in squared excess divided by
the wanted count. So a person keeps every value that no measurement shows to have changed.

All of it is post-processing of noisy tables and published rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Codes16, Floats, Integers
from hushtable.kernels import row_exchange
from hushtable.methods.quilt.budget import TableNoise
from hushtable.methods.quilt.coins import PostprocessingRng
from hushtable.simplex import project_to_simplex

TRIES_PER_VALUE = 12
MAX_TRIES = 20_000_000


@dataclass(frozen=True, eq=False)
class TransitionCounts:
    """A noisy table of a column at the previous wave (rows) and now (columns)."""

    column: str
    counts: Integers  # noisy counts of people in both waves, by bucket before and now
    noise: TableNoise

    def wanted(self, shares: Floats, n_stay: int, scale: float) -> Floats:
        """Return the wanted number of staying people in each cell.

        The diagonal determines how many people move. Measured moves are shrunk toward moves by
        chance, and the diagonal toward the shares of the previous wave, as far as noise explains
        the difference (James and Stein 1961).

        Parameters
        ----------
        shares : float array
            Shares of the buckets among all rows of the previous wave.
        n_stay : int
            Number of people who stay.
        scale : float
            Published rows per row of the private table.
        """
        counts = np.asarray(self.counts * scale, np.float64)
        std = self.noise.std * scale
        same = np.eye(len(counts), dtype=bool)
        n_moved = float(np.clip(n_stay - counts[same].sum(), 0.0, n_stay))
        chance = np.outer(shares, shares)
        chance[same] = 0.0
        if chance.sum() <= 0:  # all are in one bucket: no moves are possible
            n_moved = 0.0
        found = np.zeros(counts.shape)
        expected = chance[~same] * n_moved / max(chance.sum(), 1e-300)
        found[~same] = project_to_simplex(_drawn_to(counts[~same], expected, std), n_moved)
        left = np.maximum(n_stay * shares - found.sum(axis=1), 0.0)
        left *= (n_stay - n_moved) / max(left.sum(), 1e-300)
        found[same] = project_to_simplex(_drawn_to(counts[same], left, std), n_stay - n_moved)
        return found


def _drawn_to(measured: Floats, expected: Floats, std: float) -> Floats:
    """Shrink noisy counts toward expected ones, as far as noise explains the difference."""
    gap = measured - expected
    kept = max(0.0, 1 - std**2 * len(gap) / max(float(gap @ gap), 1e-300))
    return expected + kept * gap


def n_staying(moves: Sequence[TransitionCounts]) -> tuple[float, float]:
    """Return the estimated number of people in both waves, and its variance.

    Examples
    --------
    >>> from fractions import Fraction
    >>> noise = TableNoise("concentrated", parameter=Fraction(4))
    >>> n_staying([TransitionCounts("sex", np.array([[40, 2], [3, 55]]), noise)])
    (100.0, 16.0)
    """
    sums = np.array([float(move.counts.sum()) for move in moves])
    precision = np.array([1 / (move.counts.size * move.noise.std**2) for move in moves])
    return float(sums @ precision / precision.sum()), float(1 / precision.sum())


@dataclass(frozen=True, eq=False)
class FollowedRows:
    """Published rows of a wave, with their synthetic persons."""

    persons: Integers  # number of each row's person
    codes: Mapping[str, Integers]  # the rows, in codes of the schema


def carried_on(
    before: FollowedRows,
    drawn: Mapping[str, Integers],
    moves: Sequence[TransitionCounts],
    bucket_of: Mapping[str, Integers],
    *,
    scale: float,
    next_person: int,
    rng: PostprocessingRng,
) -> FollowedRows:
    """Continue people of the previous wave as rows with the counts of drawn rows.

    Parameters
    ----------
    before : FollowedRows
        The previous wave, as published.
    drawn : mapping of str to int array
        Codes of the rows that were drawn for this wave.
    moves : sequence of TransitionCounts
        Transitions of each column.
    bucket_of : mapping of str to int array
        The bucket of each code of each column.
    scale : float
        Published rows per row of the private table.
    next_person : int
        Number of the first new synthetic person.
    rng : PostprocessingRng
        Random number generator.
    """
    names = [move.column for move in moves]
    sizes = np.array([len(move.counts) for move in moves], np.int64)
    old, new = (_stacked(codes, names, bucket_of) for codes in (before.codes, drawn))
    n, n_before = len(new), len(old)
    n_stay = int(np.clip(round(n_staying(moves)[0] * scale), 0, min(n, n_before)))
    order = rng.shuffle(np.arange(n_before))
    who = np.append(order[:n_stay], np.full(n - n_stay, -1))
    gone = order[n_stay:].copy()
    now = np.concatenate([old[who[:n_stay]], new[n_stay:]])
    if n:
        wanted = [
            move.wanted(np.bincount(old[:, at], minlength=size) / max(n_before, 1), n_stay, scale)
            for at, (move, size) in enumerate(zip(moves, sizes, strict=True))
        ]
        counted, excess = _counted(new, now, old, who, wanted, sizes)
        tries = min(TRIES_PER_VALUE * now.size, MAX_TRIES)
        row_exchange.follow(now, who, old, gone, excess, counted, tries, rng.state)
    came = who < 0
    persons = np.where(came, 0, before.persons[who] if n_before else 0)
    persons[came] = next_person + np.arange(int(came.sum()))
    order = np.argsort(persons, kind="stable")
    codes = {}
    for at, name in enumerate(names):
        mine = before.codes[name][who] if n_before else np.zeros(n, np.int64)
        may_keep = ~came & (old[who, at] == now[:, at]) if n_before else ~came
        found = _values(now[:, at], mine, may_keep, drawn[name], bucket_of[name], rng)
        codes[name] = found[order]
    return FollowedRows(persons[order], codes)


def _stacked(
    codes: Mapping[str, Integers], names: Sequence[str], bucket_of: Mapping[str, Integers]
) -> Codes16:
    """Return the buckets of rows, one column per name."""
    return np.stack([bucket_of[name][codes[name]] for name in names], axis=1).astype(np.int16)


def _counted(  # noqa: PLR0917 - what is wanted, and what is there
    new: Codes16,
    now: Codes16,
    old: Codes16,
    who: Integers,
    wanted: Sequence[Floats],
    sizes: Integers,
) -> tuple[row_exchange.FollowTables, Floats]:
    """Return all tables packed for the kernel, and the excess of each cell."""
    n_columns = len(sizes)
    singles, steps = np.zeros(n_columns, np.int64), np.zeros(n_columns, np.int64)
    pairs = np.zeros((n_columns, n_columns), np.int64)
    targets: list[Floats] = []
    excess: list[Floats] = []
    likely: list[Floats] = []
    start = 0

    def lay(target: Floats, there: Floats, lines: Floats | None = None) -> int:
        nonlocal start
        targets.append(target)
        excess.append(there - target)
        likely.append(np.zeros(len(target)) if lines is None else lines)
        first, start = start, start + len(target)
        return first

    for at in range(n_columns):
        size = int(sizes[at])
        singles[at] = lay(*(_cells(rows[:, at], size) for rows in (new, now)))
    for a, b in combinations(range(n_columns), 2):
        n_cells = int(sizes[a] * sizes[b])
        both = (rows[:, a].astype(np.int64) * sizes[b] + rows[:, b] for rows in (new, now))
        pairs[a, b] = lay(*(_cells(cells, n_cells) for cells in both))
    stay = who >= 0
    for at in range(n_columns):
        size = int(sizes[at])
        cells = old[who[stay], at].astype(np.int64) * size + now[stay, at]
        lines = np.cumsum(wanted[at], axis=1).ravel()
        steps[at] = lay(wanted[at].ravel(), _cells(cells, size * size), lines)
    weights = 1 / (np.concatenate(targets) + 1.0)  # inverse of the sampling variance
    counted = row_exchange.FollowTables(
        sizes, singles, pairs, steps, weights, np.concatenate(likely)
    )
    return counted, np.concatenate(excess)


def _cells(cells: Integers | Codes16, size: int) -> Floats:
    return np.bincount(cells, minlength=size).astype(np.float64)


def _values(  # noqa: PLR0917 - rows that go on, and rows that were drawn
    buckets: Codes16,
    mine: Integers,
    may_keep: NDArray[np.bool_],
    drawn: Integers,
    bucket_of: Integers,
    rng: PostprocessingRng,
) -> Integers:
    """Return a code for the bucket of each row: its own if it may be kept, else a drawn one's.

    Each code occurs as often as in the drawn rows, as far as the buckets have the same size.
    """
    found = np.full(len(buckets), -1, np.int64)
    left = np.bincount(drawn, minlength=len(bucket_of))
    rows = rng.shuffle(np.flatnonzero(may_keep))
    rows = rows[np.argsort(mine[rows], kind="stable")]
    turn = np.arange(len(rows)) - np.searchsorted(mine[rows], mine[rows])
    rows = rows[turn < left[mine[rows]]]
    found[rows] = mine[rows]
    left -= np.bincount(mine[rows], minlength=len(left))
    rest = np.repeat(np.arange(len(left)), left)
    for bucket in np.unique(buckets[found < 0]):
        rows = np.flatnonzero((found < 0) & (buckets == bucket))
        pool = rng.shuffle(rest[bucket_of[rest] == bucket])
        if len(pool) < len(rows):
            others = drawn[bucket_of[drawn] == bucket]
            if not len(others):
                others = np.flatnonzero(bucket_of == bucket)
            more = others[rng.systematic_sample(np.ones(len(others)), len(rows) - len(pool))]
            pool = np.append(pool, more)
        found[rows] = pool[: len(rows)]
    return found
