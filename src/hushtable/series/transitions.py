"""Transitions of people in a panel between consecutive waves, from noisy tables, with intervals.

A table of transitions counts people of both waves by the bucket of one column before and now. Sums
of its cells are unbiased, and noise is their only error. All tables count the same people, so the
others also estimate the total: a sum of cells is also the total minus the remaining cells. Both
estimates are averaged by precision; they are independent, since they use different cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Floats
from hushtable.errors import ParameterError, Refused, unpublished
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate
from hushtable.query.where import parse
from hushtable.release.release import Release
from hushtable.schema import Column, Schema
from hushtable.series.panel import TRANSITIONS, moves_of, n_staying, persons_of
from hushtable.series.plan import said
from hushtable.series.waves import in_words, quilt_of

_CLEAR = 2.0  # minimum of a denominator, in standard deviations
_NAMED = 4  # maximum number of values named in the label of a bucket

Truth = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Number of people who moved from each value of a column to each other value.

    Parameters
    ----------
    column : str
        Name of the column.
    since, until : int
        The two waves.
    labels : tuple of str
        The values, or groups of values that were counted together.
    estimates : tuple of tuples of Estimate
        Number of people for each label before and each label now: unbiased, so an estimate may be
        negative. Sums of clipped estimates would be too large.
    mobility : Estimate
        Number of people whose label changed.
    shares : tuple of tuples of Estimate or None
        The same as shares of people with the label before; None if these are too few.
    notes : tuple of str
        Notes for the analyst.
    """

    column: str
    since: int
    until: int
    labels: tuple[str, ...]
    estimates: tuple[tuple[Estimate, ...], ...]
    mobility: Estimate
    shares: tuple[tuple[Estimate | None, ...], ...]
    notes: tuple[str, ...]

    def table(self) -> pa.Table:
        """Return the estimates as a table.

        Returns
        -------
        pyarrow.Table
            One row per pair of labels: label before, label now, people (unbiased, may be
            negative), the same clipped at 0 for display (``shown``), and share, with 95%
            intervals.
        """
        rows = []
        for a, before in enumerate(self.labels):
            for b, now in enumerate(self.labels):
                count, share = self.estimates[a][b], self.shares[a][b]
                rows.append(
                    {
                        "before": before,
                        "now": now,
                        "people": count.value,
                        "shown": max(0.0, count.value),
                        "low": count.low,
                        "high": count.high,
                        "share": None if share is None else share.value,
                        "share_low": None if share is None else share.low,
                        "share_high": None if share is None else share.high,
                    }
                )
        return pa.Table.from_pylist(rows)


class PanelAnswers:
    """Answers about transitions, from the releases of a panel.

    Parameters
    ----------
    releases : mapping of int to Release
        The valid release of each wave.
    schema : Schema
        Schema of the waves.
    """

    def __init__(self, releases: Mapping[int, Release], schema: Schema) -> None:
        self._releases, self.schema = releases, schema

    def transitions(self, column: str, since: int) -> Transitions:
        """Return the transitions of a column from a wave to the next one."""
        ParameterError.raise_if_any(unpublished([column], self.schema.attributes))
        wave = self._wave(since)
        size = len(wave.bucket_counts(column))
        cells = np.eye(size * size, dtype=bool).reshape(size, size, size, size)
        estimates = [
            [wave.sum_of(column, cells[a, b], clip=False) for b in range(size)] for a in range(size)
        ]
        moved = wave.sum_of(column, ~np.eye(size, dtype=bool))
        return Transitions(
            column,
            since,
            wave.number,
            wave.labels(column),
            tuple(map(tuple, estimates)),
            replace(moved, what=f"people whose {column} changed"),
            tuple(tuple(wave.share_of(column, a, b) for b in range(size)) for a in range(size)),
            wave.notes,
        )

    def moved(self, before: str | None, now: str | None, since: int) -> Estimate:
        """Estimate how many people satisfied one condition at a wave and another at the next."""
        asked = [None if where is None else parse(where, self.schema) for where in (before, now)]
        names = {name for clause in asked if clause is not None for name in clause.columns}
        if not any(clause is not None for clause in asked):
            return self._wave(since).staying()
        if len(names) != 1:
            raise Refused(
                "the conditions use "
                + (" and ".join(sorted(map(repr, names))) or "no column")
                + "; transitions were measured for each column separately, so use one column "
                "before and now. For several columns, use the synthetic people (panel), without "
                "an interval."
            )
        (name,) = names
        wave = self._wave(since)
        every = np.arange(self.schema.attributes[name].size)
        sides = [
            np.ones(len(wave.bucket_counts(name)), bool)
            if clause is None
            else wave.by_bucket(name, clause.mask({name: every}))
            for clause in asked
        ]
        said = (f"{before} at wave {since}", f"{now} at wave {wave.number}")
        words = " and ".join(s for s, c in zip(said, asked, strict=True) if c is not None)
        return replace(wave.sum_of(name, np.outer(*sides)), what=f"people with {words}")

    def panel(self) -> pa.Table:
        """Return all waves as one table (wave, person, columns), sorted by person and wave."""
        parts = []
        for number, release in self._releases.items():
            rows = release.frame()
            persons = pa.array(persons_of(release))
            rows = rows.add_column(0, "person", persons)
            parts.append(rows.add_column(0, "wave", pa.array(np.full(len(persons), number))))
        both = pa.concat_tables(parts, promote_options="permissive")
        return both.sort_by([("person", "ascending"), ("wave", "ascending")])

    def _wave(self, since: int) -> _Moves:
        """Return the transitions from a wave to the next one."""
        found = {}
        for number, release in self._releases.items():
            told = release.statement.estimator.get(TRANSITIONS)
            if told is not None:
                found[told["since"]] = number
        if since not in found:
            there = f"waves {in_words(found)}" if found else "no wave yet"
            raise ParameterError(f"people were not followed from wave {since}, but from {there}.")
        to = self._releases[found[since]]
        own = self._releases.get(since)
        replaced = own is None or own.folder.name != to.statement.estimator[TRANSITIONS]["release"]
        return _Moves(found[since], to, replaced=replaced)


class _Moves:
    """The measured transitions into one wave."""

    def __init__(self, number: int, release: Release, *, replaced: bool) -> None:
        self.number, self.release, self._replaced = number, release, replaced
        self._moves = {move.column: move for move in moves_of(release)}
        self._quilt = quilt_of(release)

    @property
    def notes(self) -> tuple[str, ...]:
        notes: tuple[str, ...] = (said["only noise"],)
        if self._replaced:
            notes += (said["previous wave corrected"],)
        return notes

    def bucket_counts(self, column: str) -> Floats:
        """Return the noisy number of people in each bucket at the previous wave."""
        sums: Floats = self._moves[column].counts.sum(axis=1).astype(np.float64)
        return sums

    def staying(self) -> Estimate:
        """Estimate how many people are in both waves."""
        value, variance = n_staying(list(self._moves.values()))
        return self._estimate(value, math.sqrt(variance), "people in both waves")

    def sum_of(self, column: str, cells: Truth, *, clip: bool = True) -> Estimate:
        """Estimate a sum of cells, directly and as the total minus the remaining cells."""
        move = self._moves[column]
        cells = cells.reshape(move.counts.shape)
        noise = move.noise.std**2
        value, variance = float(move.counts[cells].sum()), max(float(cells.sum()), 0.0) * noise
        others = [other for name, other in self._moves.items() if name != column]
        if not cells.any():
            return self._estimate(0.0, 0.0, "people")
        if others:
            rows, of_rows = n_staying(others)
            left = rows - float(move.counts[~cells].sum())
            of_left = of_rows + float((~cells).sum()) * noise
            weight = of_left / (variance + of_left)
            value = weight * value + (1 - weight) * left
            variance *= weight
        return self._estimate(value, math.sqrt(variance), "people", clip=clip)

    def share_of(self, column: str, before: int, now: int) -> Estimate | None:
        """Estimate the share of people in a bucket before who are in a given bucket now.

        Return None if the people in the bucket before are too few.
        """
        move = self._moves[column]
        line, size = move.counts[before], len(move.counts)
        whole, std = float(line.sum()), move.noise.std
        if whole <= _CLEAR * std * math.sqrt(size):
            return None
        share = float(line[now]) / whole
        # To first order: the numerator has its own noise, the denominator that of all its cells.
        spread = std / whole * math.sqrt((1 - share) ** 2 + share**2 * (size - 1))
        value = min(max(share, 0.0), 1.0)
        return Estimate(
            value=value,
            low=min(max(share - NORMAL * spread, 0.0), value),
            high=max(min(share + NORMAL * spread, 1.0), value),
            privacy_std=spread,
            model_std=0.0,
            what="share",
            notes=self.notes,
        )

    def _estimate(self, value: float, std: float, what: str, *, clip: bool = True) -> Estimate:
        least = 0.0 if clip else -math.inf
        inside = max(least, value)
        return Estimate(
            value=inside,
            low=max(least, value - NORMAL * std),
            high=max(inside, value + NORMAL * std),
            privacy_std=std,
            model_std=0.0,
            what=what,
            notes=self.notes,
        )

    def _bucket_of(self, column: str) -> NDArray[np.int64]:
        quilt = self._quilt
        found: NDArray[np.int64] = quilt.basis.buckets[column][quilt.bins[column]]
        return found

    def by_bucket(self, column: str, truth: Truth) -> Truth:
        """Return the buckets that satisfy a condition; refuse one that splits a bucket."""
        bucket_of = self._bucket_of(column)
        first = np.unique(bucket_of, return_index=True)[1]
        if not np.array_equal(truth, truth[first][bucket_of]):
            raise Refused(
                said(
                    "values counted together", column=column, groups="; ".join(self.labels(column))
                )
            )
        found: Truth = truth[first]
        return found

    def labels(self, column: str) -> tuple[str, ...]:
        """Return names of the buckets of a column."""
        bucket_of, kind = self._bucket_of(column), self.release.schema.attributes[column]
        return tuple(
            _label(kind, np.flatnonzero(bucket_of == bucket))
            for bucket in range(int(bucket_of.max()) + 1)
        )


def _label(column: Column, codes: NDArray[np.int64]) -> str:
    """Return a name for values that were counted together.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> _label(Integer(type="integer", low=0, high=9), np.array([2, 3, 4]))
    '2 to 4'
    """
    names = [column.name(int(code)) for code in codes]
    if len(names) > 1 and column.is_line:
        return f"{names[0]} to {names[-1]}"
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
