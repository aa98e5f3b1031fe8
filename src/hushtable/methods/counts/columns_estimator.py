"""Estimator of published columns: groups of attributes with noisy counts of their tuples.

A condition is answered from all columns that contain all its attributes. The attributes of a long
table are its items, so a condition reads ``m12 = 5 AND m40 IS NOT NULL``, and people are counted.

`ColumnView` answers from one column and accounts for noise, suppression and records that were left
out of it. This module adds:

- A condition that records without a value in the column may satisfy is answered as the total minus
  the count of its opposite (`_all_but`).
- Answers of several columns are averaged, weighted by precision (`_combined`).
- If no column contains all attributes, each attribute is looked up in one column (`_cover`), and
  the columns are combined (`_across`).

Nothing is published about the joint distribution of attributes in different columns. A record that
satisfies the condition is, in each column, among those that satisfy it for some values of the other
columns; a record that satisfies it for all values of the others satisfies it. This gives an upper
and a lower bound from every column, so the interval is valid for any dependence between columns.
Only the estimate inside it assumes independence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod, sqrt
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.domain import Domain
from hushtable.engine.baskets import most_listed
from hushtable.errors import Refused
from hushtable.methods.counts.cell_estimator import (
    CellEstimator,
    HiddenRows,
    SuppressedShare,
    chances_suppressed,
    noise_of_one,
    row_total,
)
from hushtable.methods.counts.column_table import BasketSizes, PublishedTuples
from hushtable.methods.counts.columns import Columns
from hushtable.numeric import NORMAL
from hushtable.query.answers.cell_sums import ErrorLaw
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import (
    DRAWN,
    Block,
    ComparableRelease,
    Generator,
    PublishedItemGroups,
    absent,
)
from hushtable.query.answers.row_sums import RowFunction, SumEstimates
from hushtable.query.where import Predicate, parse
from hushtable.schema import Schema
from hushtable.schema.codes import repeated
from hushtable.schema.recoding import Recoding, recoded_domain

# Estimator of one published column, with records that the column does not show.
#
# A column is a table of cells (`CellEstimator`) with two differences:
#
# - *Records without any value in it are not counted there*, and they may be many. The column cannot
#   answer a condition that such records may satisfy, but it can answer the opposite.
# - *Records may have been left out at random*: those with values in more columns than the limit. If
#   every record has a value in every column, each is included with the same known probability, and
#   answers are scaled up. Otherwise only the smallest such probability is known, and the interval
#   ranges from all records included to all with that probability (`Thinning`).

MANY = 10**15
"""Upper limit of cell counts; larger numbers are treated as unbounded."""


@dataclass(frozen=True)
class Projection:
    """A condition on the generalized codes of some attributes, as a table of shares."""

    columns: tuple[str, ...]
    table: Floats
    domain: Domain

    def shares(self, _: object, codes: Mapping[str, Integers]) -> Floats:
        """Return the share of each cell."""
        return np.asarray(self.table[tuple(codes[name] for name in self.columns)])

    def count(self) -> int:
        """Count the cells of the whole column that may satisfy the condition."""
        others = prod(size for name, size in self.domain.sizes.items() if name not in self.columns)
        return int(np.count_nonzero(self.table)) * others

    def opposite(self) -> Projection:
        """Return the negated condition."""
        return replace(self, table=np.asarray(1.0 - self.table))


class ColumnView(CellEstimator):
    """Estimator from the tuples of one column.

    `codes` and `counts` are the published tuples and their counts; `suppressed` is the probability
    that a tuple of 0, 1, 2, ... records is suppressed; `total` is the number of records that may
    have been counted in the column, if known.
    """

    total_is_published: ClassVar[str] = "a release with count_share"

    def __init__(
        self,
        schema: Schema,
        recode: Mapping[str, Recoding],
        *,
        codes: dict[str, Integers],
        counts: Integers,
        noise: ErrorLaw,
        suppressed: Floats,
        total: Estimate | None,
    ) -> None:
        self.schema, self.recode = schema, dict(recode)
        self.codes, self.counts = codes, counts.astype(np.float64) - noise.mean
        self.noise, self.suppressed = noise, suppressed
        self.suppresses, self.total = True, total

    @cached_property
    def null_cell(self) -> dict[str, Integers] | None:
        """Cell of records without any value here; None if there are no such records."""
        missing = {
            name: (self.recode.get(name) or column).missing_code
            for name, column in self.schema.attributes.items()
        }
        if any(code is None for code in missing.values()):
            return None
        return {name: np.array([code], np.int64) for name, code in missing.items()}

    def accepts_nothing(self, predicate: Predicate | Projection) -> bool:
        """Return whether records without any value here may satisfy the condition."""
        if self.null_cell is None:
            return False
        return bool(predicate.shares(self.recode, self.null_cell)[0] > 0)

    @cached_property
    def hidden_rows(self) -> HiddenRows | None:
        """Model of the positions of suppressed records; None if some are not counted at all."""
        return None if self.null_cell is not None else super().hidden_rows

    def _hidden(self, predicate: Predicate, shares: Floats) -> SuppressedShare:
        hidden = super()._hidden(predicate, shares)
        if self.null_cell is None:
            return SuppressedShare(
                n_inside=min(hidden.n_inside, MANY),
                n_outside=min(hidden.n_outside, MANY),
                share=hidden.share,
            )
        # Records without a value are not counted and may be many, unlike suppressed ones; their
        # numbers cannot be separated.
        inside = max(0, hidden.n_inside)
        return SuppressedShare(n_inside=min(inside, MANY), n_outside=MANY, share=0.0)

    def marginal(self, names: tuple[str, ...], n_records: float) -> Floats:
        """Estimate the distribution of some attributes, including records without a value."""
        shape = self.domain.project(names).shape
        places = np.ravel_multi_index(tuple(self.codes[name] for name in names), shape)
        mass = np.bincount(places, np.maximum(self.counts, 0.0), prod(shape))
        if self.null_cell is not None:
            nothing = np.ravel_multi_index(tuple(self.null_cell[n][0] for n in names), shape)
            mass[nothing] += max(0.0, n_records - mass.sum())
        return np.asarray(mass / max(mass.sum(), 1.0)).reshape(shape)


@dataclass(frozen=True)
class Thinning:
    """Random inclusion of records in columns, and the correction of answers for it.

    Examples
    --------
    >>> Thinning(max_columns=1, n_columns=4, n_reached=4, is_uniform=True).least_kept
    0.25
    """

    max_columns: int  # maximum number of columns in which a record was counted
    n_columns: int  # number of columns
    n_reached: int  # maximum number of columns in which a record has values
    is_uniform: bool  # whether every record has a value in every column

    @property
    def least_kept(self) -> float:
        """Smallest probability that a record with values in a column was counted there."""
        return min(1.0, self.max_columns / self.n_reached)

    def of_total(self, total: Estimate | None) -> Estimate | None:
        """Return the number of records that one column may have counted, given the total."""
        if total is None or not self.is_uniform:
            return total
        kept = self.least_kept
        spread = NORMAL * sqrt(total.high * kept * (1 - kept))
        return Estimate(
            value=total.value * kept,
            low=max(0.0, total.low * kept - spread),
            high=total.high * kept + spread,
            privacy_std=total.privacy_std * kept,
            model_std=0.0,
        )

    def undone(self, seen: Estimate) -> Estimate:
        """Convert an answer about the records that a column counted into one about all records."""
        kept = self.least_kept
        if kept == 1.0:
            return seen
        if self.is_uniform:
            note = (
                f"Each record was counted in {self.max_columns} of {self.n_columns} columns, "
                "chosen at random; the answer is scaled up, and its interval allows for this."
            )
            value, low = seen.value / kept, _unthinned(seen.low, kept, -1)
        else:
            note = (
                f"Records with values in more than {self.max_columns} columns were counted in a "
                "random subset of them. Their number is unknown; the interval allows for "
                "none up to all."
            )
            value, low = seen.value, seen.low
        high = _unthinned(seen.high, kept, 1)
        spread = sqrt(max(seen.value, 0.0) * (1 - kept)) / kept
        unknown = 0.0 if self.is_uniform else seen.value * (1 / kept - 1) / sqrt(12)
        return Estimate(
            value=float(np.clip(value, low, high)),
            low=low,
            high=high,
            privacy_std=seen.privacy_std / kept,
            model_std=float(np.hypot(seen.model_std / kept, np.hypot(spread, unknown))),
            notes=(*seen.notes, note),
        )

    def undone_sums(self, seen: SumEstimates) -> SumEstimates:
        """Convert sums over the records that a column counted into sums over all records.

        The summed functions must be between -1 and 1.
        """
        kept = self.least_kept
        if kept == 1.0:
            return seen
        chance = np.diag(np.abs(seen.values)) * (1 - kept)
        if self.is_uniform:
            note = (
                f"Each record was counted in {self.max_columns} of {self.n_columns} columns, "
                "chosen at random; sums are scaled up, and intervals allow for this."
            )
            chosen = replace(seen, model=seen.model + chance, notes=(*seen.notes, note))
            return chosen.divided(kept)
        note = (
            f"Records with values in more than {self.max_columns} columns were counted in a random "
            "subset of them; this is assumed to be unrelated to the question."
        )
        unknown = np.outer(seen.values, seen.values) * (1 / kept - 1) ** 2 / 12
        return replace(
            seen,
            model=seen.model + chance + unknown,
            notes=(*seen.notes, note),
        )


def _unthinned(seen: float, kept: float, sign: int) -> float:
    """Return an end of the interval for n, given an observation of Binomial(n, kept).

    It is the lower end if `sign` is -1, and the upper end if `sign` is 1.
    """
    if seen <= 0:
        return 0.0  # an upper end is 0 only if no record can satisfy the condition
    spread = NORMAL * sqrt(kept * (1 - kept))
    # Solves n kept -+ spread sqrt(n) = seen for sqrt(n).
    root = (sign * spread + sqrt(spread**2 + 4 * kept * seen)) / (2 * kept)
    return root**2


MAX_JOINT = 2_000_000
"""Maximum number of cells over which a condition across columns is enumerated."""


GroupColumns = tuple[int, tuple[str, ...]]
"""A column, and the attributes that are looked up in it."""


class ColumnsEstimator(Estimator):
    """Estimator of counts and sums from a release of columns."""

    @property
    def quantiles_by_counts(self) -> bool:  # type: ignore[override]
        """True if cells merge codes: their rows may all have one code, so sums do not suffice."""
        return bool(self.recode)

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self.plan = Columns(**self.parameters).plan(self.schema)
        self.recode = self.plan.recode
        self.counted = "people" if self.plan.item_columns is not None else "rows"
        self.private_schema = self.schema
        del self.schema  # the schema of conditions is made on demand
        self.columns: list[list[str]] = [list(column) for column in self.settings["columns"]]
        public = self.schema.counted_rows if self.plan.item_columns is None else None
        self.total = row_total(public, self.settings["n_records"])
        self.noise = noise_of_one(self.plan.mechanism)
        published = self.settings.get("sizes")
        self.sizes = published and BasketSizes.read(self.plan.max_values, published)
        self._tuples = PublishedTuples(self.table, self.plan.item_columns)
        self._views: dict[int, ColumnView] = {}

    @cached_property
    def schema(self) -> Schema:  # type: ignore[override] # made on demand
        """Schema of conditions: the table's columns, or a column for each item."""
        if self.plan.item_columns is None:
            return self.private_schema
        value = self.private_schema.attributes[self.plan.item_columns.value]
        content = value.model_dump(mode="json", exclude={"role", "confirm"}, exclude_none=True)
        each = {**content, "missing": "category"}
        return Schema.from_dict(
            {
                "name": self.private_schema.name,
                "columns": dict.fromkeys(self.plan.attribute_names, each),
            }
        )

    def _recode(self, names: Sequence[str]) -> dict[str, Recoding]:
        """Return the recodings of some attributes."""
        if self.plan.item_columns is None:
            return {name: self.recode[name] for name in names if name in self.recode}
        recoding = self.recode.get(self.plan.item_columns.value)
        return {} if recoding is None else dict.fromkeys(names, recoding)

    @cached_property
    def _thinning(self) -> Thinning:
        may_be_empty = [
            all(self.schema.attributes[name].missing_code is not None for name in names)
            for names in self.columns
        ]
        return Thinning(
            max_columns=self.plan.method.max_columns,
            n_columns=len(self.columns),
            n_reached=self.plan.n_reached,
            is_uniform=not any(may_be_empty),
        )

    @cached_property
    def _suppressed(self) -> Floats:
        return chances_suppressed(self.plan.mechanism)

    @property
    def _may_lose(self) -> bool:
        """True if people may have more values than are used."""
        item_columns = self.plan.item_columns
        if item_columns is None:
            return False
        return self.plan.max_values < most_listed(self.private_schema, item_columns)

    def _view(self, number: int) -> ColumnView:
        """Return the view of a column, cached."""
        if number not in self._views:
            names = self.columns[number]
            columns = {name: self.schema.attributes[name] for name in names}
            schema, recode = Schema(name=self.schema.name, columns=columns), self._recode(names)
            tuples = self._tuples.of_column(number)
            self._views[number] = ColumnView(
                schema,
                recode,
                codes=tuples.codes(schema, recode),
                counts=tuples.counts,
                noise=self.noise,
                suppressed=self._suppressed,
                total=self._thinning.of_total(self.total),
            )
        return self._views[number]

    def frame(self) -> pa.Table:
        """Repeat each published tuple according to its count.

        A row of a wide table has null outside its column. In a long table each copy of a tuple is a
        separate person, with a number in the column that identifies people.
        """
        rows, owners = self._tuples.rows()
        item_columns = self.plan.item_columns
        if item_columns is None:
            return self.table.select(list(self.private_schema.attributes)).take(pa.array(rows))
        taken = self.table.select([item_columns.item, item_columns.value]).take(pa.array(rows))
        return taken.add_column(0, str(self.private_schema.unit.column), pa.array(owners))

    @property
    def n_rows(self) -> int:
        """Number of rows of `frame`, which are not repeated for this."""
        return self._tuples.n_rows

    def published(self, rng: Generator) -> ComparableRelease:
        """Return each column in comparable form; for a long table, groups of items."""
        item_columns = self.plan.item_columns
        if item_columns is not None:
            items = PublishedItemGroups(
                item_columns.item, item_columns.value, self.columns, self._block
            )
            return ComparableRelease(schema=self.schema, blocks=(), about="people", items=items)
        there = {name for names in self.columns for name in names}
        published = self.schema.of_rows(name for name in self.schema.attributes if name in there)
        return ComparableRelease(
            schema=published,
            blocks=tuple(
                self._block(number, [name for name in published.attributes if name in names])
                for number, names in enumerate(self.columns)
            ),
            notes=(
                "Groups of columns are published, not whole rows: only pairs and triples inside a "
                "group are compared, and models are trained on one group.",
                *absent(self.schema, published),
                *((DRAWN,) if self.recode else ()),
            ),
        )

    def _block(self, number: int, names: Sequence[str]) -> Block:
        """Repeat each tuple of a column by its count, if it has any of these attributes."""
        codes, counts = self._view(number).codes, self._tuples.of_column(number).counts
        schema, recode = self.schema.of_rows(names), self._recode(names)
        there = np.logical_or.reduce(
            [
                codes[name] != (recode.get(name) or column).missing_code
                for name, column in schema.attributes.items()
            ]
        )
        rows = repeated(np.where(there, counts, 0))
        return Block(schema, {name: codes[name][rows] for name in names}, recode)

    # --- sums -------------------------------------------------------------------------------------

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over records, from a column that contains all attributes."""
        wanted = tuple(dict.fromkeys(name for one in functions for name in one.columns))
        covering = [n for n, names in enumerate(self.columns) if set(wanted) <= set(names)]
        if not covering:
            raise Refused(
                f"no column of this release contains {', '.join(wanted)} together; ask about "
                f"attributes of one: {'; '.join(', '.join(names) for names in self.columns[:20])}. "
                "Counts can be estimated across columns."
            )
        number = max(covering, key=lambda n: float(self._view(n).counts.sum()))
        view = self._view(number)
        if view.null_cell is not None and any(
            float(function.values(view.null_cell)[0]) != 0 for function in functions
        ):
            raise Refused(
                "records without a value in a column are not counted there; ask about ones "
                f"with a value, such as {wanted[0] if wanted else self.columns[number][0]} IS NOT "
                "NULL."
            )
        found = self._thinning.undone_sums(view.sums(functions, together=together))
        if self.sizes is not None:
            found = self.sizes.undone_sums(found)
        return replace(found, counted=self.counted)

    # --- conditions on one column -----------------------------------------------------------------

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
        """Answer from one column that contains all attributes of the condition."""
        view = self._view(number)
        predicate = parse(where, view.schema)
        if not view.accepts_nothing(predicate):
            return self._seen(view, predicate)
        opposite = parse(f"NOT (({where}) IS TRUE)", view.schema)
        return self._all_but(self._seen(view, opposite))

    def _projected(self, view: ColumnView, condition: Projection) -> Estimate:
        """Answer a condition on the codes of one column."""
        if not view.accepts_nothing(condition):
            return self._seen(view, condition)
        return self._all_but(self._seen(view, condition.opposite()))

    def _seen(self, view: ColumnView, predicate: Predicate | Projection) -> Estimate:
        """Answer from one column, for a condition that requires a value there."""
        seen = view.answer(predicate)  # type: ignore[arg-type]  # uses only shares and count
        if seen.high >= MANY:
            raise Refused(
                "the column has too many possible tuples: unpublished ones may contain any "
                "number of such records; a release with count_share would publish the number of "
                "records."
            )
        whole = self._thinning.undone(seen)
        if self.sizes is not None:
            return self.sizes.undone(whole, of_one_item=len(predicate.columns) == 1)
        if self._may_lose:
            note = (
                f"At most {self.plan.max_values} values per person are used, a random subset if "
                "there are more; the answer refers to these. A release with size_share would "
                "publish how many people have more."
            )
            whole = replace(whole, notes=(*whole.notes, note))
        return whole

    def _all_but(self, rest: Estimate) -> Estimate:
        """Estimate the records that satisfy a condition as the total minus those that do not."""
        if self.total is None:
            raise Refused(
                "records without a value in the column satisfy the condition, and these are "
                "not counted; a release with count_share would publish the number of records."
            )
        return self.total.complement(rest)

    # --- conditions across columns ----------------------------------------------------------------

    def _across(self, predicate: Predicate) -> Estimate:
        """Answer a condition whose attributes no column contains together."""
        parts = self._cover(predicate.columns)
        if self.total is None:
            raise Refused(
                f"{', '.join(predicate.columns)} are in different columns, which can only be "
                "combined if the number of records is known; publish with count_share."
            )
        joint = self._joint(predicate, parts)
        low, high = self._bounds(joint, parts, self.total.high)
        independent = self._independent(joint, parts, self.total.value)
        n_cells = sum(len(self._view(number).counts) for number, _ in parts)
        variance = n_cells * self.noise.variance / self._thinning.least_kept**2
        together = " and ".join("(" + ", ".join(mine) + ")" for _, mine in parts)
        return Estimate(
            value=float(np.clip(independent, low, high)),
            low=low,
            high=high,
            privacy_std=min(sqrt(variance), (high - low) / 2),
            model_std=(high - low) / sqrt(12),
            notes=(
                f"No column contains these attributes together. The estimate assumes {together} "
                "to be independent; the interval is valid for any dependence.",
            ),
        )

    def _cover(self, wanted: Sequence[str]) -> list[GroupColumns]:
        """Choose columns that contain the attributes, each attribute in one of them."""
        left, parts = list(wanted), []
        while left:
            held = [[name for name in left if name in names] for names in self.columns]
            number = max(range(len(held)), key=lambda n: len(held[n]))
            if not held[number]:
                raise Refused(f"no column of this release contains {', '.join(left)}.")
            parts.append((number, tuple(held[number])))
            left = [name for name in left if name not in held[number]]
        return parts

    def _joint(self, predicate: Predicate, parts: Sequence[GroupColumns]) -> Floats:
        """Return the share of each combination of codes that satisfies the condition."""
        names = [name for _, mine in parts for name in mine]
        recode = self._recode(names)
        domain = recoded_domain(self.schema, names, recode)
        if domain.size > MAX_JOINT:
            raise Refused(
                f"no column contains {', '.join(predicate.columns)} together, and their "
                f"{domain.size:,} combinations are too many to combine columns (limit "
                f"{MAX_JOINT:,}); ask about fewer attributes."
            )
        grid = domain.grid()
        codes = {name: grid[:, place] for place, name in enumerate(names)}
        return predicate.shares(recode, codes).reshape(domain.shape)

    def _bounds(
        self, joint: Floats, parts: Sequence[GroupColumns], n_records: float
    ) -> tuple[float, float]:
        """Bound the answer by each column separately, for any values of the others."""
        low, high, first = 0.0, n_records, 0
        for number, mine in parts:
            view = self._view(number)
            others = tuple(a for a in range(joint.ndim) if not first <= a < first + len(mine))
            first += len(mine)
            some, every = (joint > 0).any(axis=others), (joint == 1).all(axis=others)
            high = min(high, self._projected(view, _projection(view, mine, some)).high)
            low = max(low, self._projected(view, _projection(view, mine, every)).low)
        return low, max(low, high)

    def _independent(self, joint: Floats, parts: Sequence[GroupColumns], n_records: float) -> float:
        """Estimate the answer for independent columns."""
        share: Any = joint
        # The last axes come first, so that the positions of the others stay.
        for number, mine in reversed(parts):
            weights = self._view(number).marginal(mine, n_records)
            axes = tuple(range(share.ndim - len(mine), share.ndim))
            share = np.tensordot(share, weights, axes=(axes, tuple(range(len(mine)))))
        return float(share) * n_records


def _projection(view: ColumnView, names: tuple[str, ...], holds: Any) -> Projection:
    return Projection(names, np.asarray(holds, np.float64), view.domain)


def _combined(answers: Sequence[Estimate]) -> Estimate:
    """Average the answers of several columns, weighted by inverse variances.

    Ends are averaged like values, so the interval is no narrower than the average one.
    """
    if len(answers) == 1:
        return answers[0]
    weights = np.array([1 / max(answer.reach**2, 1e-12) for answer in answers])
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
        notes=(
            *notes,
            f"{len(answers)} columns contain these attributes; their answers are averaged.",
        ),
    )
