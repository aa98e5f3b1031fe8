"""Transitions between successive rows of one parent: measurement, and arrangement of drawn rows.

For a table with an order, each of its columns is counted jointly with the same column of the
previous row, in the buckets of the table's quilt, over the rows that have a previous one. A person
has no more such rows than counted rows, so the sensitivity is the same (``linked.md``).

Drawn rows are then swapped, two at a time, between parents and among siblings. A swap is kept if it
brings these counts closer to the measured ones than it moves others away from those drawn (of two
columns of a row, and of a column and one of the parent), in squared excess divided by the wanted
count. All columns of a row except the ordering column are swapped together, so the dependence
between them does not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.engine.sealed_table import SealedTable
from hushtable.kernels import sequence
from hushtable.methods.quilt.budget import BudgetFilter, TableNoise
from hushtable.methods.quilt.coins import PostprocessingRng
from hushtable.methods.quilt.patchwork import FitState, divided
from hushtable.privacy.noise.noise import Noise
from hushtable.schema.linked_schema import PREVIOUS

STEP_SHARE = 0.2
"""Share of a table's budget for transitions, if it has an order."""

TRIES_PER_ROW = 60
MAX_TRIES = 6_000_000


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """A noisy table of a column by the same column of the previous row."""

    column: str
    counts: Integers  # noisy, by bucket and previous bucket
    noise: TableNoise

    def target(self, rows: Integers, before: Integers) -> Floats:
        """Return the wanted number of rows in each cell, from the measured counts.

        Both one-way marginals are those of the drawn rows. The deviation of the measured counts
        from independence is shrunk as far as noise explains it (James and Stein 1961).
        """
        shape = self.counts.shape
        margins = (np.bincount(side, minlength=shape[0]) for side in (rows, before))
        n = float(len(rows))
        independent = np.outer(*margins) / max(n, 1.0)
        scale = n / max(float(self.counts.sum()), 1.0)
        gap = self.counts * scale - independent
        gap -= gap.mean(axis=0, keepdims=True)
        gap -= gap.mean(axis=1, keepdims=True)
        free = (shape[0] - 1) * (shape[1] - 1)
        squares = float(np.square(gap).sum())
        kept = max(0.0, 1 - (self.noise.std * scale) ** 2 * free / max(squares, 1e-300))
        wanted: Floats = np.maximum(independent + kept * gap, 0.0)
        return wanted


def measure_steps(
    table: SealedTable, quilt: FitState, columns: Sequence[str], noise: Noise, budget: BudgetFilter
) -> list[TransitionTable]:
    """Measure the transitions of each column; shares are proportional to the number of buckets."""
    merging = quilt.merging()
    sizes = {known.counted.values.name: known.n_buckets for known in quilt.columns}
    recode = {name: merging[name] for name in columns if name in merging}
    recode |= {f"{PREVIOUS}.{name}": merging[name] for name in columns if name in merging}
    sealed = table.marginals([[name, f"{PREVIOUS}.{name}"] for name in columns], recode=recode)
    made = []
    shares = divided(1.0, [sizes[name] ** 2 for name in columns])
    for name, counts, share in zip(columns, sealed, shares, strict=True):
        what = f"steps of {name}"
        budget.pay(what, share)
        law = budget.count_noise(share)
        noisy = noise.open(counts.ravel(), law.law, what)
        made.append(TransitionTable(name, np.asarray(noisy).reshape(sizes[name], sizes[name]), law))
    return made


def arranged(
    steps: Sequence[TransitionTable],
    own: Mapping[str, Integers],
    above: Mapping[str, Integers],
    kin: sequence.Siblings,
    rng: PostprocessingRng,
) -> Integers:
    """Return the drawn rows that supply each row's ordering value and its other columns.

    Parameters
    ----------
    steps : sequence of TransitionTable
        The measured transitions, that of the ordering column first.
    own, above : mapping of str to int array
        Buckets of the rows' own columns, in the order of `steps`, and of their ancestors' columns;
        rows of one parent are contiguous and in order.
    kin : Siblings
        Position of each row among its siblings.
    rng : PostprocessingRng
        Random number generator.
    """
    columns = [*own.values(), *above.values()]
    rows = np.stack(columns, axis=1).astype(np.int16)
    n, n_own = len(rows), len(own)
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    for place, step in enumerate(steps):
        sizes[place] = step.counts.shape[0]
    after = np.flatnonzero(kin.turns > 0)
    beside = [(a, b) for a, b in product(range(n_own), range(n_own, len(columns)))]
    beside += [(0, b) for b in range(1, n_own)]
    kinds = [sequence.BESIDE] * len(beside) + [sequence.BEFORE] * n_own
    pairs = [*beside, *((place, place) for place in range(n_own))]
    wanted = [_cells(columns[a], columns[b], sizes[a], sizes[b]) for a, b in beside]
    excess = [np.zeros(len(cells)) for cells in wanted]
    for place, step in enumerate(steps):
        now, before = columns[place][after], columns[place][after - 1]
        wanted.append(step.target(now, before).ravel())
        excess.append(_cells(now, before, sizes[place], sizes[place]) - wanted[-1])
    first, second = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    counted = sequence.SequenceTables(
        np.array(kinds, np.int64),
        first,
        second,
        np.array(sizes, np.int64)[second],
        np.cumsum([0, *(len(cells) for cells in excess)])[:-1].astype(np.int64),
        1 / (np.concatenate(wanted) + 1.0),  # inverse of the sampling variance
    )
    places = np.stack([np.arange(n), np.arange(n)], axis=1)
    if len(after):
        tries = min(TRIES_PER_ROW * n, MAX_TRIES)
        flat = np.concatenate(excess)
        sequence.arrange(rows, kin, places, n_own, flat, counted, tries, rng.state)
    return places


def _cells(one: Integers, two: Integers, n_one: int, n_two: int) -> Floats:
    """Count pairs of codes, flat."""
    return np.bincount(one * n_two + two, minlength=n_one * n_two).astype(np.float64)
