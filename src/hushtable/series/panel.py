"""A wave of a panel: a quilt of its rows, and the transitions of people since the previous wave.

The promise and its proof are in ``series.md``.

The release
-----------
That of a quilt (`hushtable.methods.quilt.quilt`), and two more tables:

- ``persons``: the number of the synthetic person (``person``) of each row of ``data``, in the same
  order. Rows with the same number in different waves are the same synthetic person.
- ``moves``, if there was a previous wave: noisy tables of the buckets of each column before (rows)
  and now (columns), concatenated: ``table``, ``cell`` (index in C order), ``count``.

The settings of the estimator have ``moves`` in addition to those of a quilt: ``since`` (the number
of the previous wave), ``release`` (the name of its folder), ``share`` of the budget, and
``tables``: for each its ``column``, ``size`` (number of buckets), ``parameter`` (the variance of
the noise) and ``std``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Codes16, Floats, Integers
from hushtable.engine import EngineName
from hushtable.engine import open as open_table
from hushtable.engine.output_guard import silenced
from hushtable.engine.sealed_table import SealedTable, SealedWaves
from hushtable.engine.two_waves import open_waves, previous
from hushtable.errors import ReleaseError
from hushtable.files.progress import Progress, silent
from hushtable.kernels import row_exchange
from hushtable.methods.base import CountError, Forecast, Plan, Released
from hushtable.methods.prior import Prior
from hushtable.methods.quilt.budget import TableNoise
from hushtable.methods.quilt.fit import FitState
from hushtable.methods.quilt.particles import PostprocessingRng
from hushtable.methods.quilt.prior_weight import PriorRows
from hushtable.methods.quilt.quilt import Quilt, QuiltPlan, codes_drawn
from hushtable.numeric import NORMAL, project_to_simplex
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.ledger.payment import PaymentOptions
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import make_noise
from hushtable.privacy.rational import as_rational
from hushtable.publishing.run import PublishRun
from hushtable.release.release import Release
from hushtable.release.stored_prior import StoredPrior
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy, below_each_other, numbers, to_values
from hushtable.schema.recoding import Recoding
from hushtable.series.plan import MOVES_SHARE, moves_budget, said, share_of_moves

# Synthetic people of a panel: rows of a wave that continue those of the previous wave.
#
# The model of a wave describes the dependence between its columns, and rows drawn from it are what
# the wave would publish without a panel. Noisy tables of each column before and now describe
# transitions. People who stay start with their row of the previous release; others start with a
# drawn row. Then values, and who stays, are changed as long as the counts of pairs of columns come
# closer to those of the drawn rows and the transitions to the measured ones, in squared excess
# divided by the wanted count. So a person keeps every value that no measurement shows to have
# changed.
#
# All of it is post-processing of noisy tables and published rows.

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
    """Return the rows of this wave: people of the previous wave who stay, and new people.

    Their values are chosen so that counts of pairs of columns come close to those of the drawn
    rows, and transitions to the measured ones.

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


PERSONS, TRANSITIONS = "persons", "transitions"


@dataclass(frozen=True)
class PreviousWave:
    """The previous wave, as published."""

    number: int
    release: Release  # its release, or its last correction

    def people(self, schema: Schema) -> FollowedRows:
        """Return the rows of this wave with their synthetic persons."""
        codes = StoredPrior.read("the wave before", self.release.folder).codes(schema)
        return FollowedRows(persons_of(self.release), codes)


def persons_of(release: Release) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the number of the synthetic person of each row of a wave of a panel."""
    if PERSONS not in release.statement.tables:
        raise ReleaseError(
            f"{release.folder.name} is not a wave of a panel: it has no table {PERSONS!r}."
        )
    return as_numpy(release.table(PERSONS).column("person")).astype(np.int64)


def moves_of(release: Release) -> list[TransitionCounts]:
    """Return the noisy tables of transitions into a wave; none for the first."""
    told = release.statement.estimator.get(TRANSITIONS)
    if told is None:
        return []
    counts, found, start = as_numpy(release.table(TRANSITIONS).column("count")), [], 0
    for table in told["tables"]:
        size = table["size"]
        part = counts[start : start + size * size].reshape(size, size)
        noise = TableNoise(
            "concentrated", parameter=as_rational(table["parameter"], name="parameter")
        )
        found.append(TransitionCounts(table["column"], part.astype(np.int64), noise))
        start += size * size
    return found


@dataclass(frozen=True)
class PanelPlan(Plan[SealedWaves]):
    """A quilt plan with the budget that transitions leave, and the previous wave."""

    quilt: QuiltPlan  # of the rows of the wave, with the budget that transitions leave
    total: Fraction  # budget of a run, as rho
    before: PreviousWave | None  # the previous wave; without it, no transitions are measured
    next_person: int  # number of the first new synthetic person

    @classmethod
    def of(
        cls, method: Quilt, schema: Schema, before: PreviousWave | None, next_person: int
    ) -> PanelPlan:
        """Plan a wave; reads no data."""
        whole = method.plan(schema)
        left = whole if before is None else replace(whole, total=(1 - MOVES_SHARE) * whole.total)
        return cls(left, whole.total, before, next_person)

    @property
    def method(self) -> Quilt:  # type: ignore[override]
        """The parameters."""
        return self.quilt.method

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """The public schema of the wave."""
        return self.quilt.schema

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed person, with all rows in both waves."""
        return replace(self.quilt, total=self.total).guarantees

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions of the promise, for both waves."""
        if self.before is None:
            return self.quilt.conditions
        return (
            *self.quilt.conditions,
            said["same identifiers"],
        )

    @property
    def starts_from(self) -> Prior | None:
        """The earlier waves."""
        return self.quilt.starts_from

    @property
    def spends_all(self) -> bool:
        """False: noise is rounded up."""
        return False

    @property
    def _share(self) -> Fraction:
        return Fraction(0) if self.before is None else MOVES_SHARE

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the wave and, if there is a previous one, the noise of transitions."""
        told = self.quilt.forecast(rows)
        if self.before is None:
            return told
        split = {step: (1 - self._share) * epsilon for step, epsilon in told.split.items()}
        split["transitions since the previous wave"] = self._share * self.method.epsilon
        lines = {**told.lines, "standard deviation of a transition": round(self.move_std, 1)}
        return replace(told, lines=lines, split=split)

    @property
    def move_std(self) -> float:
        """Standard deviation of one count of people who moved between two buckets."""
        return moves_budget(self.total).count_noise(share_of_moves(len(self.quilt.values))).std

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the error of a count of rows of the wave."""
        return self.quilt.count_error(rows=rows, share=share)

    # --- the run ----------------------------------------------------------------------------------

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the share of association that the rows keep, by pair of columns."""
        return self.quilt.association_kept(released)

    def release(self, source: SealedWaves, noise: Noise) -> Released:
        """Measure transitions and the wave, fit, draw, and continue people of the previous wave."""
        moves = [] if source.followed is None else self._measured(source.followed, noise)
        quilt, budget = self.quilt.fitted(source.now, noise)
        n_rows = self.quilt.n_published(quilt)
        rows = quilt.model.draw(n_rows)
        names = [known.counted.values.name for known in quilt.columns]
        codes = {name: codes_drawn(quilt, rows, place) for place, name in enumerate(names)}
        if self.before is None:
            people = FollowedRows(self.next_person + np.arange(n_rows), codes)
        else:
            people = carried_on(
                self.before.people(self.schema), codes, moves, _buckets(quilt),
                scale=n_rows / max(quilt.total, 1.0), next_person=self.next_person,
                rng=quilt.model.rng,
            )  # fmt: skip
        written = {
            name: to_values(self.schema.attributes[name], people.codes[name]) for name in names
        }
        made = self.quilt.released(quilt, budget, pa.table(written))
        tables = {**made.tables, PERSONS: pa.table({"person": numbers(people.persons)})}
        if moves:
            tables[TRANSITIONS] = below_each_other([move.counts for move in moves])
        warnings = [*made.warnings, *_few_stay(moves, n_rows, self.before)]
        return replace(
            made, tables=tables, settings=self._settings(made.settings, moves), warnings=warnings
        )

    def _measured(self, table: SealedTable, noise: Noise) -> list[TransitionCounts]:
        """Measure each column before by now, in the buckets of earlier waves."""
        carried = self.quilt.earlier
        assert carried is not None  # noqa: S101 - there is a wave before
        budget, made = moves_budget(self.total), []
        names = [values.name for values in self.quilt.values]
        sizes = [int(column.buckets.max()) + 1 for column in carried.columns]
        recode: dict[str, Recoding] = {}
        for values, column in zip(self.quilt.values, carried.columns, strict=True):
            recoding = values.bucket_recoding(column.buckets)
            if recoding is not None:
                recode |= {values.name: recoding, previous(values.name): recoding}
        sealed = table.marginals([[previous(name), name] for name in names], recode=recode)
        share = share_of_moves(len(names))
        law = budget.count_noise(share)
        for name, size, counts in zip(names, sizes, sealed, strict=True):
            noisy = noise.open(counts.ravel(), law.law, f"moves of {name}")
            made.append(TransitionCounts(name, np.asarray(noisy).reshape(size, size), law))
        return made

    def _settings(
        self, of_quilt: Mapping[str, Any], moves: Sequence[TransitionCounts]
    ) -> dict[str, Any]:
        """Add the transitions to the settings; shares are of the budget of the whole release."""
        if self.before is None or not moves:
            return dict(of_quilt)
        spent = {
            step: str((1 - self._share) * Fraction(share))
            for step, share in of_quilt["budget_shares"].items()
        }
        spent[TRANSITIONS] = str(self._share * share_of_moves(len(moves)) * len(moves))
        notes = [
            *of_quilt["notes"],
            said(
                "shares of the budget",
                rest=float(1 - self._share),
                share=float(self._share),
                number=self.before.number,
            ),
            said["synthetic persons"],
        ]
        told = {
            "since": self.before.number,
            "release": self.before.release.folder.name,
            "share": str(self._share),
            "tables": [
                {
                    "column": move.column,
                    "size": len(move.counts),
                    "parameter": str(move.noise.parameter),
                    "std": move.noise.std,
                }
                for move in moves
            ],
        }
        return {**of_quilt, "budget_shares": spent, "notes": notes, TRANSITIONS: told}


_FEW = 0.75  # share of the rows that continue; fewer are remarked upon


def _few_stay(
    moves: Sequence[TransitionCounts], n_rows: int, before: PreviousWave | None
) -> list[str]:
    """Return a warning, from noisy tables, if few people were also in the previous wave."""
    if not moves or before is None:
        return []
    value, variance = n_staying(moves)
    if value + NORMAL * variance**0.5 >= _FEW * n_rows:
        return []
    return [
        said(
            "few people in both waves", people=max(0.0, value), n_rows=n_rows, number=before.number
        )
    ]


def _buckets(quilt: FitState) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the bucket of each code of the schema, by column."""
    found = {}
    for known in quilt.columns:
        values = known.counted.values
        every = np.arange(values.column.size)
        counted = PriorRows({values.name: every}).values(values)
        assert counted is not None  # noqa: S101 - it has the column
        found[values.name] = known.buckets[counted]
    return found


@silenced
def publish_wave(
    data: Any,
    before: Any,
    plan: PanelPlan | QuiltPlan,
    *,
    series: Mapping[str, Any],
    out: Path,
    engine: EngineName = "auto",
    noise: Literal["secure", "opendp"] | Noise = "secure",
    memory_limit: str | None = None,
    anyway: bool = False,
    progress: Progress = silent,
    **paying: Unpack[PaymentOptions],
) -> Release:
    """Publish a wave, in the same order as any table: charge, then read.

    `before` is the private table of the previous wave of a panel, `series` the place of the release
    in the series; other arguments are as for `hushtable.publish`.
    """
    progress("planning", 0.0)
    source = make_noise(noise)
    run = PublishRun(plan, noise=source, out=out, paying=paying, progress=progress, series=series)
    run.refuse(anyway=anyway)
    if isinstance(plan, QuiltPlan):
        reading = plan.schema.reading
        table = open_table(data, reading=reading, engine=engine, memory_limit=memory_limit)
        table.check(plan.schema)
        return run.publish(lambda: table.connect(plan.schema, noise=source))
    tables = open_waves(data, before, engine=engine, memory_limit=memory_limit)
    tables.check(plan.schema)
    return run.publish(lambda: tables.connect(plan.schema, noise=source))
