"""How people of a panel moved between two consecutive waves, from noisy tables: with intervals.

A table of moves counts people of both waves by the bucket of one column before and now. Sums of its
cells are unbiased, and their error is noise. All tables count the same people, so each also says
how many they are: what is not in some cells is in the others. Where the others are fewer, that
tells more; both are weighed by precision, and are independent, since they rest on different cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.errors import ParameterError, Refused
from hushtable.estimate.base import Estimate
from hushtable.estimate.quantiles import NORMAL
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.methods.registry import estimator_for
from hushtable.predicate import parse
from hushtable.release import Release
from hushtable.schema import Column, Schema
from hushtable.series.following import n_staying
from hushtable.series.panel import MOVES, moves_of, persons_of
from hushtable.series.waves import in_words

_CLEAR = 2.0  # standard deviations above zero that a number must be to be divided by
_NAMED = 4  # values of a bucket that are named one by one

Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Say how many people went from each value of a column to each other one.

    Parameters
    ----------
    column : str
        The column.
    since, until : int
        The two waves.
    labels : tuple of str
        The values, or groups of values that were counted together.
    estimates : tuple of tuples of Estimate
        For each label before, and each label now, how many people.
    shares : tuple of tuples of Estimate or None
        The same as shares of those with the label before; None where these are too few to tell.
    notes : tuple of str
        What the analyst must know.
    """

    column: str
    since: int
    until: int
    labels: tuple[str, ...]
    estimates: tuple[tuple[Estimate, ...], ...]
    shares: tuple[tuple[Estimate | None, ...], ...]
    notes: tuple[str, ...]

    def table(self) -> pa.Table:
        """Give it as rows: label before, label now, people and their share with 95 % intervals."""
        rows = []
        for a, before in enumerate(self.labels):
            for b, now in enumerate(self.labels):
                count, share = self.estimates[a][b], self.shares[a][b]
                rows.append(
                    {
                        "before": before,
                        "now": now,
                        "people": count.value,
                        "low": count.low,
                        "high": count.high,
                        "share": None if share is None else share.value,
                        "share_low": None if share is None else share.low,
                        "share_high": None if share is None else share.high,
                    }
                )
        return pa.Table.from_pylist(rows)


class PanelAnswers:
    """Answer how people moved, from the releases of a panel.

    Parameters
    ----------
    releases : mapping of int to Release
        The waves that count, by number.
    schema : Schema
        Of the waves.
    """

    def __init__(self, releases: Mapping[int, Release], schema: Schema) -> None:
        self._releases, self.schema = releases, schema

    def transitions(self, column: str, since: int) -> Transitions:
        """Give the transitions of a column from a wave to the next one."""
        if column not in self.schema.attributes:
            raise ParameterError(
                f"{column!r} is not a published column; there are "
                f"{', '.join(self.schema.attributes)}."
            )
        wave = self._wave(since)
        size = len(wave.bucket_counts(column))
        cells = np.eye(size * size, dtype=bool).reshape(size, size, size, size)
        estimates = [[wave.sum_of(column, cells[a, b]) for b in range(size)] for a in range(size)]
        return Transitions(
            column,
            since,
            wave.number,
            wave.labels(column),
            tuple(map(tuple, estimates)),
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
                "the conditions are about "
                + (" and ".join(sorted(map(repr, names))) or "no column")
                + "; moves were measured column by column, so ask about one column before and "
                "now. The synthetic people (panel) tell how columns move together, without an "
                "interval."
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
        """Lay all waves below each other: wave, person, and the columns; by person and wave."""
        parts = []
        for number, release in self._releases.items():
            rows = release.frame()
            persons = pa.array(persons_of(release))
            rows = rows.add_column(0, "person", persons)
            parts.append(rows.add_column(0, "wave", pa.array(np.full(len(persons), number))))
        both = pa.concat_tables(parts, promote_options="permissive")
        return both.sort_by([("person", "ascending"), ("wave", "ascending")])

    def _wave(self, since: int) -> _Moves:
        """Find the wave that people were followed to from another one."""
        found = {}
        for number, release in self._releases.items():
            told = release.statement.estimator.get(MOVES)
            if told is not None:
                found[told["since"]] = number
        if since not in found:
            there = f"waves {in_words(found)}" if found else "no wave yet"
            raise ParameterError(
                f"nobody was followed from wave {since}; people were followed from {there}."
            )
        to = self._releases[found[since]]
        own = self._releases.get(since)
        replaced = own is None or own.folder.name != to.statement.estimator[MOVES]["release"]
        return _Moves(found[since], to, replaced=replaced)


class _Moves:
    """What one wave measured of how people moved into it."""

    def __init__(self, number: int, release: Release, *, replaced: bool) -> None:
        self.number, self.release, self._replaced = number, release, replaced
        self._moves = {move.column: move for move in moves_of(release)}
        statement = release.statement
        tables = {name: release.table(name) for name in statement.tables}
        quilt = estimator_for(statement.estimator, release.schema, statement.parameters, tables)
        assert isinstance(quilt, QuiltEstimator)  # noqa: S101 - all waves are quilts
        self._quilt = quilt

    @property
    def notes(self) -> tuple[str, ...]:
        said: tuple[str, ...] = (
            "People of both waves were counted, column by column: the error is noise.",
        )
        if self._replaced:
            said += (
                "The wave before was corrected after these people were followed from it: they are "
                "counted by what it was.",
            )
        return said

    def bucket_counts(self, column: str) -> Floats:
        """Give the sums of the cells of each bucket before."""
        sums: Floats = self._moves[column].counts.sum(axis=1).astype(np.float64)
        return sums

    def staying(self) -> Estimate:
        """Estimate how many people are in both waves."""
        value, variance = n_staying(list(self._moves.values()))
        return self._estimate(value, math.sqrt(variance), "people in both waves")

    def sum_of(self, column: str, cells: Truth) -> Estimate:
        """Add up cells of a table, or take the others from what all other tables count."""
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
        return self._estimate(value, math.sqrt(variance), "people")

    def share_of(self, column: str, before: int, now: int) -> Estimate | None:
        """Estimate which share of those with a bucket before have another now."""
        move = self._moves[column]
        line, size = move.counts[before], len(move.counts)
        whole, std = float(line.sum()), move.noise.std
        if whole <= _CLEAR * std * math.sqrt(size):
            return None
        share = float(line[now]) / whole
        # To first order: the part has noise of its own, the whole that of all its cells.
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

    def _estimate(self, value: float, std: float, what: str) -> Estimate:
        inside = max(0.0, value)
        return Estimate(
            value=inside,
            low=max(0.0, value - NORMAL * std),
            high=max(inside, value + NORMAL * std),
            privacy_std=std,
            model_std=0.0,
            what=what,
            notes=self.notes,
        )

    def _bucket_of(self, column: str) -> NDArray[np.int64]:
        quilt = self._quilt
        found: NDArray[np.int64] = quilt.measured.buckets[column][quilt.bins[column]]
        return found

    def by_bucket(self, column: str, truth: Truth) -> Truth:
        """Say for which buckets a condition holds, or refuse one that cuts through some."""
        bucket_of = self._bucket_of(column)
        first = np.unique(bucket_of, return_index=True)[1]
        if not np.array_equal(truth, truth[first][bucket_of]):
            raise Refused(
                f"values of {column!r} that the condition tells apart were counted together; ask "
                f"for whole groups: {'; '.join(self.labels(column))}."
            )
        found: Truth = truth[first]
        return found

    def labels(self, column: str) -> tuple[str, ...]:
        """Name the buckets of a column."""
        bucket_of, kind = self._bucket_of(column), self.release.schema.attributes[column]
        return tuple(
            _label(kind, np.flatnonzero(bucket_of == bucket))
            for bucket in range(int(bucket_of.max()) + 1)
        )


def _label(column: Column, codes: NDArray[np.int64]) -> str:
    """Name values that were counted together.

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
