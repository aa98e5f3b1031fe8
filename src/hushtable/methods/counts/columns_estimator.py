"""Count from published columns: groups of attributes, each with noisy counts of its tuples.

A condition whose attributes stand together in a column is answered from that column, and from all
such columns together. Three things are told apart:

- inside a column, noise and suppression are those of a release of cells, see `CellEstimator`;
- records in more columns than the bound were taken out of some of them at random, so a column may
  show only part of its records;
- a condition across columns needs an assumption. The interval then holds for every way in which
  the columns may hang together, and only the value inside it relies on independence.

For a long table the attributes are its items, so a condition reads ``m12 = 5 AND m40 IS NOT NULL``
and people are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod, sqrt
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import repeated, to_codes
from hushtable.domain import Domain
from hushtable.errors import Refused
from hushtable.estimate.base import CONFIDENCE, Estimate, Estimator
from hushtable.estimate.drawing import Generator
from hushtable.estimate.noise_sum import NoiseSum
from hushtable.estimate.published import DRAWN, Block, ItemGroups, Published, absent
from hushtable.methods.counts.cell_estimator import (
    _SURELY_PUBLISHED,
    CellEstimator,
    _Hidden,
    _Range,
)
from hushtable.methods.counts.columns import COLUMN, COUNT, TUPLE, Columns, Plan
from hushtable.predicate import Predicate, parse
from hushtable.recoding import Recoding, recoded_domain
from hushtable.schema import Schema

MAX_JOINT = 2_000_000
"""Cells over which a condition across columns is looked at one by one."""

_NORMAL = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_MANY = 10**15  # stands for more cells than could matter

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Projection:
    """A condition on the generalized codes of some attributes, given as a table of shares."""

    columns: tuple[str, ...]
    table: Floats
    domain: Domain

    def shares(self, _: object, codes: Mapping[str, Integers]) -> Floats:
        """Look cells up."""
        return np.asarray(self.table[tuple(codes[name] for name in self.columns)])

    def count(self) -> int:
        """Count the cells of the whole column that may satisfy it."""
        others = prod(size for name, size in self.domain.sizes.items() if name not in self.columns)
        return int(np.count_nonzero(self.table)) * others


class _Column(CellEstimator):
    """Answer from the tuples of one column."""

    where_total_is_told: ClassVar[str] = "a release with count_share"

    def __init__(
        self,
        schema: Schema,
        recode: Mapping[str, Recoding],
        *,
        codes: dict[str, Integers],
        counts: Integers,
        noise: NoiseSum,
        most_suppressed: int,
    ) -> None:
        self.schema, self.recode = schema, dict(recode)
        self.domain = recoded_domain(schema, list(schema.attributes), self.recode)
        self.codes, self.published_counts = codes, counts
        self.noise, self.most_suppressed = noise, most_suppressed
        self.suppresses, self.total = True, None

    @cached_property
    def counts(self) -> Floats:
        """Published counts with the known bias of their noise taken off."""
        return self.published_counts.astype(np.float64) - self.noise.mean

    @cached_property
    def null_cell(self) -> dict[str, Integers] | None:
        """The cell of records without any value here, if there may be such records."""
        missing = {
            name: (self.recode.get(name) or column).missing_code
            for name, column in self.schema.attributes.items()
        }
        if any(code is None for code in missing.values()):
            return None
        return {name: np.array([code], np.int64) for name, code in missing.items()}

    def accepts_nothing(self, predicate: Predicate | _Projection) -> bool:
        """Tell whether records without any value here may satisfy the condition."""
        if self.null_cell is None:
            return False
        return bool(predicate.shares(self.recode, self.null_cell)[0] > 0)

    def _hidden(self, predicate: Predicate, shares: Floats) -> _Hidden:
        hidden = super()._hidden(predicate, shares)
        if self.null_cell is None:
            return _Hidden(
                n_inside=min(hidden.n_inside, _MANY),
                n_outside=min(hidden.n_outside, _MANY),
                share=hidden.share,
            )
        # The records without a value are uncounted and may be many, unlike suppressed ones; how
        # many of the uncounted are suppressed cannot be told.
        inside = max(0, hidden.n_inside)
        return _Hidden(n_inside=min(inside, _MANY), n_outside=_MANY, share=0.0)


class ColumnsEstimator(Estimator):
    """Answer counts from a release of columns."""

    def __init__(
        self,
        schema: Schema,
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        tables: Mapping[str, pa.Table],
    ) -> None:
        method = Columns(**parameters)
        self.plan: Plan = method.plan(schema)
        self.recode = self.plan.recode
        self.max_columns = method.max_columns
        self.private_schema = schema
        self.table = tables["data"]
        self.columns: list[list[str]] = [list(column) for column in settings["columns"]]
        self.total = _total(schema, self.plan, settings["n_records"])
        mechanism = self.plan.mechanism
        far = mechanism.release_count(1 - 1e-15) + mechanism.release_count(_SURELY_PUBLISHED)
        published, chances = mechanism.outcomes(far)
        self.noise = NoiseSum(published - far, chances)
        self.most_suppressed = mechanism.release_count(_SURELY_PUBLISHED) - 1
        self._views: dict[int, _Column] = {}

    @cached_property
    def schema(self) -> Schema:  # type: ignore[override] # made when asked for
        """What conditions may be about: the table's columns, or a column for each item."""
        if self.plan.listing is None:
            return self.private_schema
        value = self.private_schema.attributes[self.plan.listing.value]
        content = value.model_dump(mode="json", exclude={"role", "confirm"}, exclude_none=True)
        each = {**content, "missing": "category"}
        return Schema.from_dict(
            {
                "name": self.private_schema.name,
                "columns": dict.fromkeys(self.plan.attribute_names, each),
            }
        )

    def _recode(self, names: Sequence[str]) -> dict[str, Recoding]:
        if self.plan.listing is None:
            return {name: self.plan.recode[name] for name in names if name in self.plan.recode}
        recoding = self.plan.recode.get(self.plan.listing.value)
        return {} if recoding is None else dict.fromkeys(names, recoding)

    # --- the published tuples ---------------------------------------------------------------------

    @cached_property
    def _first_rows(self) -> Integers:
        """The first row of each tuple in the table."""
        if self.plan.listing is None:
            return np.arange(self.table.num_rows)
        return np.flatnonzero(np.diff(self.table.column(TUPLE).to_numpy(), prepend=-1))

    def _view(self, number: int) -> _Column:
        if number not in self._views:
            self._views[number] = self._open(number)
        return self._views[number]

    def _open(self, number: int) -> _Column:
        names = self.columns[number]
        schema = _of_columns(self.schema, names)
        recode = self._recode(names)
        mine = self.table.column(COLUMN).to_numpy() == number
        rows = self.table.filter(pa.array(mine))
        if self.plan.listing is None:
            reader = _Reader(schema, recode)
            codes = {name: reader.codes(name, rows.column(name)) for name in names}
            counts = rows.column(COUNT).to_numpy()
        else:
            codes, counts = self._listed_codes(schema, recode, rows)
        return _Column(
            schema, recode, codes=codes, counts=counts, noise=self.noise,
            most_suppressed=self.most_suppressed,
        )  # fmt: skip

    def _listed_codes(
        self, schema: Schema, recode: Mapping[str, Recoding], rows: pa.Table
    ) -> tuple[dict[str, Integers], Integers]:
        listing = self.plan.listing
        assert listing is not None  # noqa: S101 - asked for long tables only
        starts = np.flatnonzero(np.diff(rows.column(TUPLE).to_numpy(), prepend=-1))
        of_tuple = np.cumsum(np.diff(rows.column(TUPLE).to_numpy(), prepend=-1) != 0) - 1
        names = list(schema.attributes)
        items = rows.column(listing.item).combine_chunks().dictionary_encode()
        position = {name: place for place, name in enumerate(names)}
        places = np.array([position[name] for name in items.dictionary.to_pylist()], np.int64)
        item = places[items.indices.to_numpy(zero_copy_only=False)] if len(rows) else starts
        value = _Reader(schema, recode).codes(names[0], rows.column(listing.value))
        codes = {}
        for place, name in enumerate(names):
            missing = (recode.get(name) or schema.attributes[name]).missing_code
            codes[name] = np.full(len(starts), missing, np.int64)
            codes[name][of_tuple[item == place]] = value[item == place]
        return codes, rows.column(COUNT).to_numpy()[starts]

    def frame(self) -> pa.Table:
        """Repeat each published tuple as often as its count says.

        A row of a wide table is padded with null outside its column. In a long table each copy of
        a tuple is a person of its own, with a number in the column that names people.
        """
        starts = self._first_rows
        counts = self.table.column(COUNT).to_numpy()[starts]
        if self.plan.listing is None:
            rows = repeated(counts)
            return self.table.select(list(self.private_schema.attributes)).take(pa.array(rows))
        tuples = repeated(counts)
        copies = np.diff(np.append(starts, self.table.num_rows))[tuples]
        people = repeated(copies)
        rows = np.arange(len(people)) - (np.cumsum(copies) - copies - starts[tuples])[people]
        listing, person = self.plan.listing, self.private_schema.unit.column
        taken = self.table.select([listing.item, listing.value]).take(pa.array(rows))
        return taken.add_column(0, str(person), pa.array(people))

    def published(self, rng: Generator) -> Published:
        """Lay each column beside the same attributes of the original; of a long table, items."""
        listing = self.plan.listing
        if listing is not None:
            items = ItemGroups(listing.item, listing.value, self.columns, self._block)
            return Published(schema=self.schema, blocks=(), about="people", items=items)
        there = {name for names in self.columns for name in names}
        published = self.schema.select(name for name in self.schema.attributes if name in there)
        return Published(
            schema=published,
            blocks=tuple(
                self._block(number, [name for name in published.attributes if name in names])
                for number, names in enumerate(self.columns)
            ),
            notes=(
                "Groups of columns are published, not whole rows: pairs and triples are compared "
                "where a group holds them, and a model learns from one group.",
                *absent(self.schema, published),
                *((DRAWN,) if self.recode else ()),
            ),
        )

    def _block(self, number: int, names: Sequence[str]) -> Block:
        """Repeat each tuple of a column by its count, where it has any of these attributes."""
        view, schema, recode = self._view(number), self.schema.select(names), self._recode(names)
        there = np.logical_or.reduce(
            [
                view.codes[name] != (recode.get(name) or column).missing_code
                for name, column in schema.attributes.items()
            ]
        )
        rows = repeated(np.where(there, view.published_counts, 0))
        return Block(schema, {name: view.codes[name][rows] for name in names}, recode)

    # --- answers ----------------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many records satisfy a condition."""
        predicate = parse(where, self.schema)
        wanted = set(predicate.columns)
        covering = [n for n, names in enumerate(self.columns) if wanted <= set(names)]
        if not covering:
            return self._across(predicate)
        answers, refusals = [], []
        for number in covering:
            try:
                answers.append(self._from_column(number, where))
            except Refused as refusal:
                refusals.append(refusal)
        if not answers:
            raise refusals[0]
        return _combined(answers)

    def _from_column(self, number: int, where: str) -> Estimate:
        """Answer from one column that has all attributes of the condition."""
        view = self._view(number)
        if not view.accepts_nothing(parse(where, view.schema)):
            return self._bounded(view, parse(where, view.schema))
        rest = self._bounded(view, parse(f"NOT (({where}) IS TRUE)", view.schema))
        return self._taken_off(rest)

    def _taken_off(self, rest: Estimate) -> Estimate:
        """Count those who satisfy a condition as all but those who do not."""
        if self.total is None:
            raise Refused(
                "the condition holds for records that have no value in the column, and these are "
                "never counted; a release with count_share tells how many records there are."
            )
        below = sqrt((self.total.value - self.total.low) ** 2 + (rest.high - rest.value) ** 2)
        above = sqrt((self.total.high - self.total.value) ** 2 + (rest.value - rest.low) ** 2)
        value = self.total.value - rest.value
        return Estimate(
            value=max(0.0, value),
            low=max(0.0, value - below),
            high=max(0.0, value) + above,
            privacy_std=float(np.hypot(self.total.privacy_std, rest.privacy_std)),
            model_std=rest.model_std,
            notes=rest.notes,
        )

    @property
    def _least_kept(self) -> float:
        """The least chance that a record with values in a column was counted there."""
        return min(1.0, self.max_columns / self.plan.n_reached)

    @cached_property
    def _all_alike(self) -> bool:
        """Whether every record has a value in every column."""
        nullable = [
            all(self.schema.attributes[name].missing_code is not None for name in names)
            for names in self.columns
        ]
        return not any(nullable)

    def _bounded(self, view: _Column, predicate: Predicate | _Projection) -> Estimate:
        """Answer from one column, for a condition that needs a value there."""
        kept = self._least_kept
        view.total = None
        if self.total is not None:
            spread = _NORMAL * sqrt(self.total.high * kept * (1 - kept)) if self._all_alike else 0.0
            share = kept if self._all_alike else 1.0
            view.total = _Range(
                value=self.total.value * share,
                low=max(0.0, self.total.low * share - spread),
                high=self.total.high * share + spread,
                privacy_std=self.total.privacy_std * share,
            )
        seen = view.answer(predicate)  # type: ignore[arg-type]  # asks for shares and count only
        if seen.high >= _MANY:
            raise Refused(
                "the column has so many tuples that those which are not published might hold any "
                "number of such records; a release with count_share tells how many there are at "
                "most."
            )
        notes = list(seen.notes)
        bounded = self.plan.max_values < (self.schema.unit.max_rows or 0)
        if self.plan.listing is not None and bounded:
            notes.append(
                f"Of each person at most {self.plan.max_values} values count, a random part of "
                "those who have more; the answer is about these."
            )
        if kept == 1.0:
            return _with_notes(seen, notes)
        if self._all_alike:
            notes.append(
                f"Each record was counted in {self.max_columns} of {len(self.columns)} columns, "
                "chosen at random; the answer is scaled up, and its interval allows for the chance."
            )
            value, low = seen.value / kept, _unthinned(seen.low, kept, -1)
        else:
            notes.append(
                f"Records with values in more than {self.max_columns} columns were counted in a "
                "random part of them; how many there are is not known, and the interval allows for "
                "none up to all."
            )
            value, low = seen.value, seen.low
        high = _unthinned(seen.high, kept, 1)
        spread = sqrt(max(seen.value, 0.0) * (1 - kept)) / kept
        unknown = 0.0 if self._all_alike else seen.value * (1 / kept - 1) / sqrt(12)
        return Estimate(
            value=float(np.clip(value, low, high)),
            low=low,
            high=high,
            privacy_std=seen.privacy_std / kept,
            model_std=float(np.hypot(seen.model_std / kept, np.hypot(spread, unknown))),
            notes=tuple(notes),
        )

    # --- conditions across columns ----------------------------------------------------------------

    def _across(self, predicate: Predicate) -> Estimate:
        parts = self._cover(predicate.columns)
        if self.total is None:
            raise Refused(
                f"no column holds {', '.join(predicate.columns)} together, and without the number "
                "of records columns cannot be compared; a release with count_share tells it."
            )
        names = [name for _, mine in parts for name in mine]
        recode = self._recode(names)
        domain = recoded_domain(self.schema, names, recode)
        if domain.size > MAX_JOINT:
            raise Refused(
                f"no column holds {', '.join(predicate.columns)} together, and their "
                f"{domain.size:,} combinations are too many to compare columns by (limit "
                f"{MAX_JOINT:,}); ask about fewer attributes."
            )
        grid = domain.grid()
        codes = {name: grid[:, place] for place, name in enumerate(names)}
        joint = predicate.shares(recode, codes).reshape(domain.shape)
        low, high, mean = 0.0, self.total.high, joint
        first, axes, weights = 0, [], []
        for _, mine in parts:
            axes.append(tuple(range(first, first + len(mine))))
            first += len(mine)
        for (number, mine), axis in zip(parts, axes, strict=True):
            view = self._view(number)
            others = tuple(a for a in range(joint.ndim) if a not in axis)
            some = _Projection(tuple(mine), _floats((joint > 0).any(axis=others)), view.domain)
            every = _Projection(tuple(mine), _floats((joint == 1).all(axis=others)), view.domain)
            high = min(high, self._project(view, some).high)
            low = max(low, self._project(view, every).low)
            weights.append(self._marginal(view, mine))
        for place, axis in reversed(list(enumerate(axes))):
            mean = np.tensordot(mean, weights[place], axes=(axis, tuple(range(len(axis)))))
        value = float(np.clip(float(mean) * self.total.value, low, max(low, high)))
        n_cells = sum(len(self._view(number).counts) for number, _ in parts)
        variance = n_cells * self.noise.variance / self._least_kept**2
        together = " and ".join("(" + ", ".join(mine) + ")" for _, mine in parts)
        return Estimate(
            value=value,
            low=low,
            high=max(low, high),
            privacy_std=min(sqrt(variance), (max(low, high) - low) / 2),
            model_std=(max(low, high) - low) / sqrt(12),
            notes=(
                f"No column holds these attributes together. The value takes {together} to be "
                "independent; the interval holds however they hang together.",
            ),
        )

    def _cover(self, wanted: Sequence[str]) -> list[tuple[int, list[str]]]:
        """Choose columns that hold the attributes, each attribute in one of them."""
        left, parts = list(wanted), []
        while left:
            held = [[name for name in left if name in names] for names in self.columns]
            number = max(range(len(held)), key=lambda n: len(held[n]))
            if not held[number]:
                raise Refused(f"{', '.join(left)} is in no column of this release.")
            parts.append((number, held[number]))
            left = [name for name in left if name not in held[number]]
        return parts

    def _project(self, view: _Column, condition: _Projection) -> Estimate:
        if not view.accepts_nothing(condition):
            return self._bounded(view, condition)
        opposite = _Projection(condition.columns, _floats(1.0 - condition.table), condition.domain)
        return self._taken_off(self._bounded(view, opposite))

    def _marginal(self, view: _Column, names: Sequence[str]) -> Floats:
        """Estimate how the attributes are distributed, those who have none of them included."""
        shape = view.domain.project(names).shape
        places = np.ravel_multi_index(tuple(view.codes[name] for name in names), shape)
        mass = np.bincount(places, np.maximum(view.counts, 0.0), prod(shape))
        if view.null_cell is not None and self.total is not None:
            nothing = np.ravel_multi_index(tuple(view.null_cell[n][0] for n in names), shape)
            mass[nothing] += max(0.0, self.total.value - mass.sum())
        return np.asarray(mass / max(mass.sum(), 1.0)).reshape(shape)


@dataclass(frozen=True)
class _Reader:
    """Turn published values back into codes."""

    schema: Schema
    recode: Mapping[str, Recoding]

    def codes(self, name: str, values: pa.ChunkedArray) -> Integers:
        """Encode the values of one attribute; null is missing."""
        return to_codes(self.schema.attributes[name], values, self.recode.get(name))


def _floats(table: Any) -> Floats:
    return np.asarray(table, np.float64)


def _of_columns(schema: Schema, names: Sequence[str]) -> Schema:
    """Describe some of the columns alone."""
    return Schema(name=schema.name, columns={name: schema.attributes[name] for name in names})


def _total(schema: Schema, plan: Plan, published: Mapping[str, Any] | None) -> _Range | None:
    """Read the number of records: public, or published with noise, or not known."""
    public = schema.counted_rows
    if plan.listing is None and public is not None:
        return _Range(value=public, low=public, high=public)
    if published is None:
        return None
    value, scale = float(published["value"]), float(Fraction(published["scale"]))
    half = 1 - scale * float(np.log(1 - CONFIDENCE))
    return _Range(
        value=value, low=max(0.0, value - half), high=value + half, privacy_std=scale * sqrt(2)
    )


def _unthinned(seen: float, kept: float, sign: int) -> float:
    """Give the end of the interval for n if a Binomial(n, kept) variable was seen."""
    if seen <= 0:
        return 0.0  # only a condition that nobody can satisfy has an end at 0
    spread = _NORMAL * sqrt(kept * (1 - kept))
    # n kept -+ spread sqrt(n) = seen, solved for sqrt(n)
    root = (sign * spread + sqrt(spread**2 + 4 * kept * seen)) / (2 * kept)
    return root**2


def _with_notes(estimate: Estimate, notes: Sequence[str]) -> Estimate:
    return Estimate(**{**estimate.__dict__, "notes": tuple(notes)})


def _combined(answers: Sequence[Estimate]) -> Estimate:
    """Weigh the answers of several columns by their inverse variances.

    Ends are averaged like values, so the interval is no narrower than the average one.
    """
    if len(answers) == 1:
        return answers[0]
    weights = np.array([1 / max(answer.std**2, 1e-12) for answer in answers])
    weights /= weights.sum()
    notes = tuple(dict.fromkeys(note for answer in answers for note in answer.notes))

    def mean(name: str) -> float:
        return float(weights @ np.array([getattr(answer, name) for answer in answers]))

    low, high = mean("low"), mean("high")
    return Estimate(
        value=float(np.clip(mean("value"), low, high)),
        low=low,
        high=high,
        privacy_std=float(np.sqrt(weights**2 @ [answer.privacy_std**2 for answer in answers])),
        model_std=mean("model_std"),
        notes=(*notes, f"{len(answers)} columns hold this condition; their answers are averaged."),
    )
