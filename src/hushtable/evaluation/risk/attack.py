"""Tables of an attack as numeric matrices, in the values of the release.

Values are encoded by the engine's rules, with two exceptions, so that no value stops an attack:
numbers are clipped to the public range (in columns without special values), and other
out-of-domain values become missing. If the release generalized a column, private values are
generalized in the same way, because the attacker sees them in this form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushtable.arrays import Bools, Floats, Integers
from hushtable.engine import connect
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.errors import DataError
from hushtable.evaluation.findings import TEXTS, MetricValue, Plain, wilson
from hushtable.schema import Categorical, Column, Integer, Numeric, Schema
from hushtable.schema.recoding import Intervals, Recoding

MOST_TARGETS = 2_000
FEWEST_TARGETS = 200
MOST_COMPARISONS = 250_000_000
"""Limit on targets times published records in a search; `FEWEST_TARGETS` may exceed it."""


@dataclass(frozen=True)
class AttackTables:
    """Tables and settings of the attacks."""

    names: tuple[str, ...]  # columns that the original and the release share
    # values of ordered columns are positions from 0 to 1 in the public range
    ordered: Bools
    sizes: Integers  # size of each released domain, without special values
    original: Floats  # rows by columns; missing is NaN, unordered columns contain codes
    published: Floats
    control: Floats | None  # rows that are not in the release
    rng: np.random.Generator  # for samples and ties
    notes: tuple[str, ...] = ()  # how the tables were made comparable

    @property
    def n_targets(self) -> int:
        """Maximum number of people to attack with nearest-neighbor searches."""
        affordable = MOST_COMPARISONS // max(len(self.published), 1)
        return int(min(MOST_TARGETS, max(FEWEST_TARGETS, affordable)))

    def targets(self, table: Floats, n_targets: int | None = None) -> Floats:
        """Return a random sample of people to attack; by default, at most `self.n_targets`."""
        n_targets = n_targets or self.n_targets
        if len(table) <= n_targets:
            return table
        return table[self.rng.choice(len(table), n_targets, replace=False)]

    def sampled(self, n_targets: int | None = None) -> str:
        """Return a note if only a sample of people is attacked."""
        n_targets = n_targets or self.n_targets
        if len(self.original) <= n_targets:
            return ""
        return f"Run on a random sample of {n_targets:,} rows."

    def seed(self) -> int:
        """Draw a seed for breaking ties."""
        return int(self.rng.integers(2**63))


def make_attack_tables(  # noqa: PLR0917 - same order as in `assess`
    original: pa.Table,
    published: pa.Table,
    control: pa.Table | None,
    schema: Schema,
    recode: Mapping[str, Recoding],
    rng: np.random.Generator,
) -> AttackTables:
    """Encode the tables of an attack; see `hushtable.evaluation.risk.attacks.assess`."""
    tables = [original, published] + [control] * (control is not None)
    names = [n for n in schema.attributes if all(n in t.column_names for t in tables)]
    if not names:
        raise DataError(TEXTS["no common column"].format(columns=", ".join(schema.attributes)))
    columns = {name: schema.attributes[name] for name in names}
    recode = {name: cut for name, cut in recode.items() if name in columns}
    as_published = {
        name: _labels(recode[name]) if name in recode else column
        for name, column in columns.items()
    }
    notes = []
    dropped = [name for name in schema.attributes if name not in names]
    if dropped:
        notes.append(f"Not attacked, because not in all tables: {', '.join(dropped)}.")
    if recode:
        notes.append(f"Attacked in their generalized values: {', '.join(sorted(recode))}.")
    sizes = np.array([(recode.get(n) or c).size for n, c in columns.items()], np.int64)
    sizes -= [(recode.get(n) or c).n_special for n, c in columns.items()]

    def private(table: pa.Table) -> Floats:
        codes = _read(table, columns, schema)
        return _matrix(columns, codes, recode)

    return AttackTables(
        names=tuple(names),
        ordered=np.array([_is_ordered(c, recode.get(n)) for n, c in columns.items()]),
        sizes=sizes,
        original=private(original),
        published=_matrix(columns, _read(published, as_published, schema), recode, done=True),
        control=None if control is None else private(control),
        rng=rng,
        notes=tuple(notes),
    )


def _is_ordered(column: Column, cut: Recoding | None) -> bool:
    if isinstance(column, Categorical):
        return column.ordered and cut is None
    return cut is None or isinstance(cut, Intervals)


def _labels(cut: Recoding) -> Column:
    labels = tuple(str(label) for label in cut.names)
    return Categorical(type="categorical", values=labels)


def _read(table: pa.Table, columns: Mapping[str, Column], schema: Schema) -> dict[str, Integers]:
    """Encode a table; clip numbers, and replace other out-of-domain values by missing."""
    lenient: dict[str, Any] = {}
    for name, column in columns.items():
        lenient[name] = column.model_copy(update={"missing": "category", "outside": "missing"})
        place, values = table.column_names.index(name), table.column(name)
        if isinstance(column, Numeric) and _is_number(values.type):
            values = values if column.special else _clipped(values, column)
        elif isinstance(column, Categorical) and not _is_plain(values.type):
            texts = [None if value is None else str(value) for value in values.to_pylist()]
            values = pa.chunked_array([pa.array(texts, pa.string())])
        elif isinstance(column, Numeric) and _is_odd(values.type):
            values = pa.chunked_array([pa.nulls(len(values))])  # these types contain no numbers
        table = table.set_column(place, name, values)
    # A listed value that is also a code for missing is a value, as in the engine.
    listed = {v for c in lenient.values() if isinstance(c, Categorical) for v in c.values}
    rules = Schema(
        name=schema.name,
        columns=lenient,
        missing_values=tuple(text for text in schema.missing_values if text not in listed),
    )
    engine = connect(table.select(list(columns)), rules, engine="memory")
    assert isinstance(engine, MemoryEngine)  # noqa: S101 - asked for
    return engine.codes(list(columns))


def _is_odd(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether the engine reads a type; others are converted to text first."""
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_text or _is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind))


def _clipped(values: pa.ChunkedArray, column: Numeric) -> pa.ChunkedArray:
    """Clip numbers to the public range, and round them for integer columns.

    Published and private values are both clipped.
    """
    low, high = (float(column.value(code) or 0) for code in (0, column.n_values - 1))
    inside = pc.min_element_wise(
        pc.max_element_wise(values.cast(pa.float64(), safe=False), low, skip_nulls=False),
        high, skip_nulls=False,
    )  # fmt: skip
    return pc.round(inside) if isinstance(column, Integer) else inside


def _matrix(
    columns: Mapping[str, Column],
    codes: Mapping[str, Integers],
    recode: Mapping[str, Recoding],
    *,
    done: bool = False,
) -> Floats:
    """Return released values, sorted by row: positions in ordered columns, codes in others.

    With `done`, the given codes are already those of released values.
    """
    matrix = np.empty((len(next(iter(codes.values()))), len(columns)))
    for place, (name, column) in enumerate(columns.items()):
        cut, values = recode.get(name), codes[name]
        n_values = len(cut.labels) if cut is not None and done else column.n_values
        missing = values >= n_values  # special values have no position either
        if cut is not None and not done:
            values = cut.apply(np.minimum(values, column.n_values - 1))
        if cut is not None:
            n_values = len(cut.labels)
        scale = max(n_values - 1, 1) if _is_ordered(column, cut) else 1
        matrix[:, place] = np.where(missing, np.nan, values / scale)
    # Engines return rows in any order; sorted, the same seed selects the same samples.
    return np.asarray(matrix[np.lexsort(matrix.T)])


def equal(first: Floats, second: Floats) -> Bools:
    """Return where two arrays agree; two missing values are equal."""
    return np.asarray((first == second) | (np.isnan(first) & np.isnan(second)))


def columns_of(matrix: Floats, places: Sequence[int]) -> Floats:
    """Return some columns as a contiguous array, for the nearest-neighbor search."""
    return np.ascontiguousarray(matrix[:, list(places)])


# Result of an attack: success rates on members, on a control group and of a naive attacker.

VERDICT = 0.999
"""Confidence level at which an attack is reported as successful."""


@dataclass(frozen=True, kw_only=True)
class Rate(Plain):
    """A success rate with a 95% Wilson interval; `n` is the number of guesses.

    Examples
    --------
    >>> rate = Rate.of(30, 100)
    >>> f"{rate.low:.3f} {rate.value} {rate.high:.3f}"
    '0.219 0.3 0.396'
    """

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, hits: float, n: int, *, confidence: float = 0.95) -> Rate:
        """Return the rate of hits among `n` guesses; with no guess, the interval is 0 to 1."""
        if n == 0:
            return cls(value=0.0, low=0.0, high=1.0, n=0)
        low, high = wilson(hits, n, confidence=confidence)
        return cls(value=hits / n, low=low, high=high, n=n)

    def at(self, confidence: float) -> Rate:
        """Return the same rate with another confidence level."""
        return Rate.of(self.value * self.n, self.n, confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class Outcome(Plain):
    """Result of one attack."""

    name: str  # such as "singling out" or "attribute inference"
    of: str = ""  # specific target: a column or a kind of predicate; may be empty
    attacker: str  # description in a sentence
    attack: Rate  # success on people in the original
    control: Rate | None = None  # success of the same guesses on people not in the original
    naive: Rate | None  # success without the release; None if not defined
    note: str = ""  # samples used, comparisons that were not possible
    details: tuple[MetricValue, ...] = ()

    @property
    def reference(self) -> Rate | None:
        """The baseline rate: that on the control group, else that of the naive attacker."""
        return self.control if self.control is not None else self.naive

    @property
    def excess(self) -> Rate | None:
        """Attack rate minus reference rate, with Newcombe's 95% interval."""
        other = self.reference
        return None if other is None else difference(self.attack, other)

    @property
    def succeeds(self) -> bool:
        """True if the attack is significantly above its reference (99.9% confidence).

        A report contains dozens of attacks, so 95% intervals would cause false alarms in most
        reports.
        """
        other = self.reference
        if other is None:
            return False
        sure = difference(self.attack.at(VERDICT), other.at(VERDICT))
        return sure.low > 0

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            **super().to_dict(),
            "excess": self.excess and self.excess.to_dict(),
            "compared_with": "control" if self.control else "naive" if self.naive else None,
            "succeeds": self.succeeds,
            "n": self.attack.n,
        }


def difference(first: Rate, second: Rate) -> Rate:
    """Return the difference of two rates, with Newcombe's interval from the Wilson intervals.

    Examples
    --------
    >>> gap = difference(Rate.of(56, 70), Rate.of(48, 80))
    >>> f"{gap.low:.4f} {gap.value:.4f} {gap.high:.4f}"
    '0.0524 0.2000 0.3339'
    """
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    gap = first.value - second.value
    return Rate(value=gap, low=gap - below, high=gap + above, n=min(first.n, second.n))
