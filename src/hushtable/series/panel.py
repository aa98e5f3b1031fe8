"""A wave of a panel: a quilt of its rows, and how people moved since the wave before.

The promise and its proof are in ``series.md``.

The release
-----------
That of a quilt (`hushtable.methods.quilt.quilt`), and two more tables:

- ``persons``: the number of each one's synthetic person (``person``), for the rows of ``data`` in
  their order. Who has the same number in another wave is the same synthetic person.
- ``moves``, if there was a wave before: noisy tables of the buckets of each column before (rows)
  and now (columns), below each other: ``table``, ``cell`` (its number in C order), ``count``.

The settings of the estimator have ``moves`` beside those of a quilt: ``since`` (the number of the
wave before), ``release`` (the name of its folder), ``share`` of the budget, and ``tables``: for
each its ``column``, ``size`` (how many buckets), ``parameter`` (the variance of the noise) and
``std``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa

from hushtable.codes import as_numpy, below_each_other, numbers, to_values
from hushtable.engine import EngineName
from hushtable.engine.sealed import SealedTable, SealedWaves
from hushtable.engine.silence import silenced
from hushtable.engine.two_waves import WaveEngines, open_waves, previous
from hushtable.errors import ReleaseError
from hushtable.files.progress import Progress, silent
from hushtable.methods.base import CountError, Forecast, Plan, Released
from hushtable.methods.prior import Prior
from hushtable.methods.quilt.meter import TableMechanism
from hushtable.methods.quilt.patchwork import Patchwork
from hushtable.methods.quilt.prior import PriorRows
from hushtable.methods.quilt.quilt import Quilt, QuiltPlan, codes_drawn
from hushtable.pipeline import publish_plan
from hushtable.prior import StoredPrior
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise import Noise
from hushtable.privacy.noise_sources import make_noise
from hushtable.privacy.payment import Paying
from hushtable.recoding import Recoding
from hushtable.release import Release
from hushtable.schema import Schema
from hushtable.series.following import Move, People, carried_on
from hushtable.series.plan import MOVES_SHARE, moves_purse, share_of_moves

PERSONS, MOVES = "persons", "moves"


@dataclass(frozen=True)
class Before:
    """The wave before, as it was published.

    Parameters
    ----------
    number : int
        Its number.
    release : Release
        Its release, or that of its last correction.
    """

    number: int
    release: Release

    def people(self, schema: Schema) -> People:
        """Give its rows and who they are."""
        codes = StoredPrior.read("the wave before", self.release.folder).codes(schema)
        return People(persons_of(self.release), codes)


def persons_of(release: Release) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Give the number of the person of each row of a wave of a panel."""
    if PERSONS not in release.statement.tables:
        raise ReleaseError(
            f"{release.folder.name} does not say who its rows are; it is no wave of a panel."
        )
    return as_numpy(release.table(PERSONS).column("person")).astype(np.int64)


def moves_of(release: Release) -> list[Move]:
    """Give the noisy tables of how people moved into a wave; none for the first."""
    told = release.statement.estimator.get(MOVES)
    if told is None:
        return []
    counts, found, start = as_numpy(release.table(MOVES).column("count")), [], 0
    for table in told["tables"]:
        size = table["size"]
        part = counts[start : start + size * size].reshape(size, size)
        noise = TableMechanism("concentrated", parameter=Fraction(table["parameter"]))
        found.append(Move(table["column"], part.astype(np.int64), noise))
        start += size * size
    return found


@dataclass(frozen=True)
class PanelPlan(Plan[SealedWaves]):
    """Hold the plan of a quilt for what is not spent on moves, and the wave before.

    Parameters
    ----------
    quilt : QuiltPlan
        How the rows of the wave are counted; it may spend what moves leave.
    total : Fraction
        What a run may spend in all, as rho.
    before : Before or None
        The wave before; without it nothing is spent on moves.
    next_person : int
        The number of the first person who was never seen.
    """

    quilt: QuiltPlan
    total: Fraction
    before: Before | None
    next_person: int

    @classmethod
    def of(
        cls, method: Quilt, schema: Schema, before: Before | None, next_person: int
    ) -> PanelPlan:
        """Plan a wave; sees no data."""
        whole = method.plan(schema)
        left = whole if before is None else replace(whole, total=(1 - MOVES_SHARE) * whole.total)
        return cls(left, whole.total, before, next_person)

    @property
    def method(self) -> Quilt:  # type: ignore[override]
        """The parameters."""
        return self.quilt.method

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """What is public about the wave."""
        return self.quilt.schema

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed person, with all rows in both waves."""
        return replace(self.quilt, total=self.total).guarantees

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the promise takes for granted about both waves."""
        if self.before is None:
            return self.quilt.conditions
        return (
            *self.quilt.conditions,
            "Identifiers. A person has the same one in this wave and in the one before; somebody "
            "who has two is protected as two.",
        )

    @property
    def starts_from(self) -> Prior | None:
        """The earlier waves."""
        return self.quilt.starts_from

    @property
    def spends_all(self) -> bool:
        """Noise is rounded up."""
        return False

    @property
    def _share(self) -> Fraction:
        return Fraction(0) if self.before is None else MOVES_SHARE

    def forecast(self, rows: int | None = None) -> Forecast:
        """Say what to expect of the wave, and of a count of people who moved."""
        told = self.quilt.forecast(rows)
        if self.before is None:
            return told
        split = {step: (1 - self._share) * epsilon for step, epsilon in told.split.items()}
        split["moves since the wave before"] = self._share * self.method.epsilon
        lines = {**told.lines, "standard deviation of a count of moves": round(self.move_std, 1)}
        return replace(told, lines=lines, split=split)

    @property
    def move_std(self) -> float:
        """The standard deviation of one count of people who went from one bucket to another."""
        return moves_purse(self.total).count_noise(share_of_moves(len(self.quilt.values))).std

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Say how far a count of rows of the wave will be off."""
        return self.quilt.count_error(rows=rows, share=share)

    # --- the run ----------------------------------------------------------------------------------

    def release(self, source: SealedWaves, noise: Noise) -> Released:
        """Measure moves and the wave, fit, draw, and let people of the wave before go on."""
        moves = [] if source.followed is None else self._measured(source.followed, noise)
        quilt, purse = self.quilt.sewn(source.now, noise)
        n_rows = self.quilt.n_published(quilt)
        rows = quilt.field.draw(n_rows)
        names = [known.counted.values.name for known in quilt.columns]
        codes = {name: codes_drawn(quilt, rows, place) for place, name in enumerate(names)}
        if self.before is None:
            people = People(self.next_person + np.arange(n_rows), codes)
        else:
            people = carried_on(
                self.before.people(self.schema), codes, moves, _buckets(quilt),
                scale=n_rows / max(quilt.total, 1.0), next_person=self.next_person,
                coins=quilt.field.coins,
            )  # fmt: skip
        written = {
            name: to_values(self.schema.attributes[name], people.codes[name]) for name in names
        }
        made = self.quilt.released(quilt, purse, pa.table(written))
        tables = {**made.tables, PERSONS: pa.table({"person": numbers(people.persons)})}
        if moves:
            tables[MOVES] = below_each_other([move.counts for move in moves])
        return replace(made, tables=tables, settings=self._settings(made.settings, moves))

    def _measured(self, table: SealedTable, noise: Noise) -> list[Move]:
        """Count each column before and now, in the buckets that earlier waves laid down."""
        carried = self.quilt.carried
        assert carried is not None  # noqa: S101 - there is a wave before
        purse, made = moves_purse(self.total), []
        names = [values.name for values in self.quilt.values]
        sizes = [int(column.buckets.max()) + 1 for column in carried.columns]
        recode: dict[str, Recoding] = {}
        for values, column in zip(self.quilt.values, carried.columns, strict=True):
            recoding = values.bucket_recoding(column.buckets)
            if recoding is not None:
                recode |= {values.name: recoding, previous(values.name): recoding}
        sealed = table.marginals([[previous(name), name] for name in names], recode=recode)
        share = share_of_moves(len(names))
        law = purse.count_noise(share)
        for name, size, counts in zip(names, sizes, sealed, strict=True):
            purse.pay(MOVES, share)
            noisy = noise.open(counts.ravel(), law.law, f"moves of {name}")
            made.append(Move(name, np.asarray(noisy).reshape(size, size), law))
        return made

    def _settings(self, of_quilt: Mapping[str, Any], moves: Sequence[Move]) -> dict[str, Any]:
        """Tell what was spent on moves, too: shares are of the budget of the whole release."""
        if self.before is None or not moves:
            return dict(of_quilt)
        spent = {
            step: str((1 - self._share) * Fraction(share))
            for step, share in of_quilt["spent"].items()
        }
        spent[MOVES] = str(self._share * share_of_moves(len(moves)) * len(moves))
        notes = [
            *of_quilt["notes"],
            f"These are shares of {float(1 - self._share):g} of the budget; "
            f"{float(self._share):g} was spent on how people moved since wave "
            f"{self.before.number}.",
            "`persons` numbers the rows: whoever has the same number in another wave is the same "
            "synthetic person. No number is a person's, and no one person's way is anybody's.",
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
        return {**of_quilt, "spent": spent, "notes": notes, MOVES: told}


def _buckets(quilt: Patchwork) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """For each column the bucket of each code of the schema."""
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
    plan: PanelPlan,
    *,
    out: Path,
    engine: EngineName = "auto",
    noise: Literal["secure", "opendp"] | Noise = "secure",
    memory_limit: str | None = None,
    anyway: bool = False,
    progress: Progress = silent,
    **paying: Unpack[Paying],
) -> Release:
    """Publish a wave of a panel, in the same order of things as any table: charge, then read.

    `before` is the private table of the wave before; all else is as for `hushtable.publish`.
    """
    progress("planning", 0.0)
    source = make_noise(noise)

    def ready() -> Callable[[], WaveEngines]:
        tables = open_waves(data, before, engine=engine, memory_limit=memory_limit)
        tables.check(plan.schema)
        return lambda: tables.connect(plan.schema, noise=source)

    return publish_plan(
        plan, ready, noise=source, out=out, paying=paying, anyway=anyway, progress=progress
    )
