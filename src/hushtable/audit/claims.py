"""Claims derived from every kind of promise, in a form that runs can falsify."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushtable.arrays import Integers
from hushtable.audit.bounds import EventTally, at_least, at_most, visible_rate
from hushtable.audit.cases import Case
from hushtable.audit.events import Both, Not, Within
from hushtable.audit.inputs import Pair, Row, TableInput, corner_cells
from hushtable.audit.loss import LossClaim
from hushtable.audit.report import Finding, Verdict, Witness
from hushtable.audit.subject import Clock, Outlook, Subject
from hushtable.errors import HushtableError
from hushtable.methods.base import Released
from hushtable.privacy.bounded_adversary import odds_limit
from hushtable.privacy.guarantee import ApproxDP, BoundedAdversary, Guarantee, PureDP
from hushtable.privacy.unit import Neighbors
from hushtable.schema import Categorical, Schema

LOG_RATIO = "log likelihood ratio"
ORDERED = 40
"""Runs in which the order of published records is tested."""

BEYOND_DELTA = "epsilon, at events that use delta"


def loss_claims(
    promise: Guarantee, case: Case[Any], subject: Subject, largest: int
) -> Iterator[LossClaim]:
    """Yield bounds on the loss for a promise about neighbors; nothing for other promises."""
    if isinstance(promise, PureDP | ApproxDP):
        pairs = _pairs(case, subject, promise.neighbors, largest)
        epsilon = float(promise.epsilon)
        delta = float(promise.delta)
        yield LossClaim(
            promise.explain(), pairs, epsilon, epsilon, delta, relation=promise.neighbors
        )
        rare = [pair for pair in pairs if pair.rare]
        if delta > 0 and rare:
            # Pairs that use all of delta are always tested, whatever the search prefers.
            yield LossClaim(
                promise.explain(), rare, epsilon, epsilon, delta, BEYOND_DELTA, about_delta=True
            )
    elif isinstance(promise, BoundedAdversary):
        # By Bayes' rule, probability d rises to gamma exactly if the likelihood ratio is this large
        rises = math.log(odds_limit(promise.d, promise.gamma))
        # and falls to at most d / gamma of its value if the ratio is this small.
        falls = math.log(promise.gamma / promise.d)
        there_or_not = [*_repeated(subject), *_pairs(case, subject, "add-remove", largest)]
        if promise.adversary == "independent":
            yield LossClaim(promise.explain(), there_or_not, rises, falls, measure=LOG_RATIO)
            return
        # An adversary who knows that a person participates compares two possible tuples.
        exchanged = [*_exchanged(there_or_not), *_pairs(case, subject, "replace", largest)]
        yield LossClaim(
            promise.explain(), exchanged, rises, rises, measure=LOG_RATIO, relation="replace"
        )
        yield LossClaim(
            promise.explain(), there_or_not, math.inf, falls, measure=f"{LOG_RATIO}, against"
        )


def _pairs(case: Case[Any], subject: Subject, relation: Neighbors, largest: int) -> list[Pair]:
    method, schema = subject.method, subject.schema
    searched = case.search(method, schema, relation, largest)
    if _relation_of(subject) != relation:
        return list(searched)
    return [*case.pairs(method, schema), *searched]


def _relation_of(subject: Subject) -> Neighbors:
    """Return the neighbor relation of a method's worst cases."""
    for promise in subject.prepared.guarantees:
        if isinstance(promise, PureDP | ApproxDP):
            return promise.neighbors
    return "add-remove"


def _repeated(subject: Subject) -> Iterator[Pair]:
    """Yield tables with and without several copies of a tuple (rastogi-2007-6)."""
    schema = subject.schema
    row, *others = corner_cells(schema)
    for base in ((), tuple(others)):
        yield Pair(
            "a tuple with five rows (rastogi-2007-6)",
            TableInput(schema, (*base, *[row] * 5)),
            TableInput(schema, base),
        )


def _exchanged(pairs: list[Pair]) -> Iterator[Pair]:
    """Yield pairs in which another tuple replaces the one that is present or absent."""
    for pair in pairs:
        if isinstance(pair.one, TableInput) and isinstance(pair.two, TableInput):
            schema, base = pair.two.schema, pair.two.rows
            own = pair.one.rows[-1]
            other = next((c for c in corner_cells(schema) if c not in pair.one.rows), None)
            if other is not None:
                # Presence of one tuple and absence of the other is stronger evidence than either.
                alone = Both(
                    Within(_published(schema, own)), Not(Within(_published(schema, other)))
                )
                yield Pair(
                    f"{pair.name}, replaced",
                    pair.one,
                    TableInput(schema, (*base, other)),
                    (alone,),
                )


def _published(schema: Schema, row: Row) -> str:
    """Return the feature name of a published tuple."""
    columns = schema.attributes.values()
    values = [str(column.value(code)) for column, code in zip(columns, row, strict=True)]
    return f"data[{','.join(values)}]"


# --- promises about single inputs -----------------------------------------------------------------


@dataclass
class SingleTest:
    """Test of a promise about single inputs."""

    subject: Subject
    promise: Any
    runs: int  # maximum number of runs on each input
    error: float  # probability of a false alarm, or of a wrong detection limit
    clock: Clock

    def threshold(self) -> Finding:
        """Test whether a tuple of fewer than k rows is published.

        With fewer than k rows in total, nothing may be published, however rows are generalized.
        With one additional frequent tuple, at most that tuple may be published, in any column.
        """
        few = self.promise.k - 1
        rare, often, *_ = [*corner_cells(self.subject.schema), None]
        tables = [([rare] * few, 0)]
        if often is not None:
            tables.append(([rare] * few + [often] * (4 * self.promise.k + 60), 1))
            tables.append(([rare] * (few // 2) + [often] * (few - few // 2), 0))
        return self._never(
            ((TableInput(self.subject.schema, tuple(rows)), allowed) for rows, allowed in tables),
            lambda released, allowed: _most_tuples(released) > allowed,
            f"a tuple with {few} rows is published",
            each=max(1, self.runs // len(tables)),
        )

    def k_anonymity(self) -> Finding:
        """Test whether a group of fewer than k rows is published, on many small tables."""
        k, schema = self.promise.k, self.subject.schema
        cells = corner_cells(schema)
        sizes = sorted({0, 1, k - 1, k, 2 * k})
        tables = [
            tuple(cell for cell, n in zip(cells, numbers, strict=True) for _ in range(n))
            for numbers in itertools.product(sizes, repeat=len(cells))
        ]
        target = self.subject.method.parameters().get("target", schema.target)
        names = [name for name in schema.attributes if name != target]
        return self._never(
            ((TableInput(schema, rows), k) for rows in tables if rows),
            lambda released, k: _smallest_group(released, names) < k,
            f"a group of fewer than {k} rows is published",
            each=1,
        )

    def _never(self, inputs: Any, is_broken: Any, event: str, *, each: int) -> Finding:
        self.subject.outlook = Outlook()
        n_inputs, published = 0, []
        for given, allowed in inputs:
            n_inputs += 1
            published.append(0)
            for run in range(each):
                if self.clock.is_past(1):
                    break
                try:
                    released = self.subject.released(given)
                except HushtableError:  # publishing nothing is not a violation
                    break
                published[-1] += 1
                if is_broken(released, allowed):
                    return Finding(
                        promise=self.promise.explain(),
                        verdict="VIOLATION",
                        n_inputs=n_inputs,
                        witness=Witness(
                            "a single table", given, None, event, EventTally(1, run + 1), None
                        ),
                    )
            self.clock.report("testing", min(1.0, n_inputs * each / max(self.runs, 1)))
        tried = [n for n in published if n]
        if not tried:
            reason = self.subject.outlook.refusal
            return Finding(
                promise=self.promise.explain(), verdict="NOT TESTED", n_inputs=n_inputs,
                reason=f"every run was refused: {reason}" if reason else "no time for runs",
            )  # fmt: skip
        note = f"{len(tried):,} of {n_inputs:,} tables were published, in {sum(tried):,} runs."
        seen = f"it on any of {len(tried):,} tables"
        if each > 1:
            # A single occurrence would have been a violation.
            chance = at_most(EventTally(0, min(tried)), error=self.error)
            seen = f"that {event} with probability {chance:.2g}, on any of {len(tried):,} tables"
        return Finding(
            promise=self.promise.explain(), verdict="NO VIOLATION FOUND", would_see=seen,
            n_inputs=n_inputs, notes=(note,),
        )  # fmt: skip

    def uncertain_anonymity(self) -> Finding:
        """Simulate, and count for each record how often fewer than k records fit.

        One half of the runs (or of the time) selects the record for which this is most frequent.
        The other half tests this record.
        """
        eta, half = float(self.promise.eta), max(1, self.runs // 2)
        tables, notes = list(_record_tables(self.subject.schema, self.promise.k)), []
        worst: tuple[float, TableInput, int] | None = None
        started, n_chosen = self.clock.now(), 0
        for place, table in enumerate(tables, start=1):
            try:
                lacking, n = self._lacking(
                    table, max(1, half // len(tables)), until=place / len(tables) / 2
                )
            except HushtableError as error:
                notes.append(f"a table was refused: {error.problems[0]}")
                continue
            rates, n_chosen = lacking / n, n_chosen + n
            if worst is None or rates.max() > worst[0]:
                worst = float(rates.max()), table, int(rates.argmax())
        if worst is None:
            return Finding(
                promise=self.promise.explain(), verdict="NOT TESTED",
                measure="probability of fewer than k", n_inputs=len(tables),
                reason=f"every table was refused: {notes[0]}",
            )  # fmt: skip
        if (finding := self._revealed_by_order(worst[1])) is not None:
            return finding
        _, table, record = worst
        n_tested = self.clock.affordable(half, 1, n_chosen, started)
        tally = EventTally(int(self._lacking(table, n_tested)[0][record]), n_tested)
        half_error = self.error / 2  # the other half is for the test of the order
        bound = at_least(tally, error=half_error)
        least = visible_rate(n_tested, lambda seen: at_least(seen, error=half_error) > eta)
        measure, verdict = "probability of fewer than k", _verdict(bound > eta, least)
        return Finding(
            promise=self.promise.explain(),
            verdict=verdict,
            would_see=f"a {measure} above {least:.4g}" if verdict == "NO VIOLATION FOUND" else "",
            reason=f"{n_tested:,} runs are not enough" if verdict == "NOT TESTED" else "",
            measure=measure,
            limit=eta,
            bound=bound,
            resolution=least,
            n_inputs=len(tables),
            witness=Witness(
                f"record {record + 1} of {len(table.rows)}", table, None,
                f"fewer than {self.promise.k} records fit", tally, None,
            ),
            notes=tuple(notes),
        )  # fmt: skip

    def _revealed_by_order(self, table: TableInput) -> Finding | None:
        """Test whether the order of records depends on their values.

        If it does, the position of a record may identify its owner. In a random order, an
        arrangement and its reverse are equally likely. So values tend to increase with the position
        in at most half of the runs, and to decrease in at most half.
        """
        slopes = [self._slope(table) for _ in range(ORDERED)]
        for event, hits in (
            ("larger values come later", sum(slope > 0 for slope in slopes)),
            ("larger values come earlier", sum(slope < 0 for slope in slopes)),
        ):
            tally = EventTally(hits, ORDERED)
            if at_least(tally, error=self.error / 4) > 0.5:
                return Finding(
                    promise=self.promise.explain(),
                    verdict="VIOLATION",
                    n_inputs=1,
                    witness=Witness("the order of records", table, None, event, tally, None),
                )
        return None

    def _slope(self, table: TableInput) -> float:
        """Publish once, and return the covariance (times n) of value and position."""
        try:
            data = self.subject.released(table).tables["data"]
        except HushtableError:
            return 0.0
        method: Any = self.subject.method
        name = method.plan(self.subject.schema).names[0]
        found = np.asarray(data[name].to_pylist(), np.float64)
        places = np.arange(len(found)) - (len(found) - 1) / 2
        return float(found @ places)

    def _lacking(self, table: TableInput, n: int, until: float = math.inf) -> tuple[Integers, int]:
        """Return for each record how often fewer than k fit, and the number of runs made."""
        method: Any = self.subject.method
        schema = self.subject.schema
        plan = method.plan(schema)
        wanted = [method.k_column] * (method.k_column is not None)
        places = [list(schema.attributes).index(name) for name in
                  (*plan.names, *method.carry, *wanted)]  # fmt: skip
        codes = np.array(table.rows, np.int64)[:, places]
        d = len(plan.names)
        values = codes.astype(np.float64)
        for at, name in enumerate([*plan.names, *method.carry, *wanted]):
            column = schema.attributes[str(name)]
            if not isinstance(column, Categorical):
                values[:, at] = float(column.exact_low) + codes[:, at] * float(column.exact_step)
        joined = plan.n_values if method.edges == "wrap" else None
        lacking = np.zeros(len(codes), np.int64)
        for run in range(1, n + 1):
            perturbed = plan.perturb(values, self.subject.noise)
            self.subject.n_runs += 1
            unchanged, widths = codes[:, d : d + len(method.carry)], perturbed.widths
            if perturbed.regions is not None:  # ends are published; all records inside fit
                first, last = perturbed.regions.first, perturbed.regions.last
                unchanged, widths = np.column_stack((unchanged, first, last)), last - first
            fits = n_fits(
                codes[:, :d], perturbed.steps, widths,
                unchanged=unchanged, joined=joined, is_box=method.model == "uniform",
            )  # fmt: skip
            lacking += fits < self.promise.k
            self.clock.report("testing", 0.5 * run / n + (0.5 if until > 1 else 0.0))
            if self.clock.is_past(until):
                break
        return lacking, run


def n_fits(
    codes: Integers,
    noisy: Integers,
    widths: Integers,
    *,
    unchanged: Integers,
    joined: Integers | None,
    is_box: bool,
) -> Integers:
    """Return the number of records that fit each noisy record at least as well as its owner.

    This implements the definition directly, independently of the method's code.

    All arrays have the shape (records, columns). `codes` and `noisy` are the true and noisy values,
    in steps of the grid. `widths` is the size of the noise: steps to each side of a box, or
    proportional to a Gaussian's sigma; records with other widths do not fit. `unchanged` are values
    that are published as they are; records with other values do not fit. `joined` is the number of
    values of each column if its two ends are joined. Noise is uniform in a box if `is_box`,
    otherwise Gaussian.

    Examples
    --------
    >>> codes = np.array([[0], [1], [9]])
    >>> unchanged = np.empty((3, 0), int)
    >>> ones = np.ones((3, 1), int)
    >>> n_fits(codes, codes, ones, unchanged=unchanged, joined=None, is_box=True)
    array([2, 2, 1])
    >>> n_fits(codes, codes, ones, unchanged=unchanged, joined=np.array([10]), is_box=True)
    array([3, 2, 2])
    """
    away = np.abs(noisy[:, None, :] - codes[None, :, :])
    if joined is not None:
        away = np.minimum(away % joined, joined - away % joined)
    same = (widths[:, None, :] == widths[None, :, :]).all(axis=2)
    same &= (unchanged[:, None, :] == unchanged[None, :, :]).all(axis=2)
    if is_box:
        fits = (away <= widths[:, None, :]).all(axis=2)
    else:
        distance = ((away / widths[:, None, :]) ** 2).sum(axis=2)
        fits = distance <= np.diagonal(distance)[:, None] * (1 + 1e-9)
    return np.asarray((fits & same).sum(axis=1))


def _record_tables(schema: Schema, k: int) -> Iterator[TableInput]:
    """Yield two tables of records: evenly spread, and concentrated with one outlier."""
    shape, n = schema.domain.shape, max(24, 8 * k)
    # Multiples of irrational numbers are evenly distributed in any dimension.
    steps = np.sqrt(np.array([2, 3, 5, 7, 11, 13, 17, 19][: len(shape)], np.float64))
    spread = (np.arange(1, n + 1)[:, None] * steps) % 1.0
    for squeeze in (1.0, 0.3):
        codes = np.floor(spread * squeeze * np.array(shape)).astype(int)
        if squeeze < 1:
            codes[-1] = np.array(shape) - 1
        yield TableInput(schema, tuple(tuple(map(int, row)) for row in codes))


def _verdict(broken: bool, least: float) -> Verdict:
    if broken:
        return "VIOLATION"
    return "NO VIOLATION FOUND" if math.isfinite(least) else "NOT TESTED"


def _most_tuples(released: Released) -> int:
    """Return the largest number of published tuples in a column of the release."""
    table = released.tables["data"]
    if table.num_rows == 0 or "column" not in table.column_names:
        return int(table.num_rows)
    keys = ["column", "tuple"] if "tuple" in table.column_names else table.column_names
    seen = {tuple(row[key] for key in keys) for row in table.select(keys).to_pylist()}
    columns = [row[0] for row in seen]
    return max(columns.count(column) for column in set(columns))


def _smallest_group(released: Released, names: list[str]) -> int:
    """Return the size of the smallest group, over all classes; very large without groups."""
    table = released.tables["data"]
    keys = [name for name in names if name in table.column_names] or ["group"]
    sizes: dict[Any, int] = {}
    for row in table.to_pylist():
        key = tuple(str(row[name]) for name in keys)
        sizes[key] = sizes.get(key, 0) + int(row["count"])
    return min(sizes.values(), default=1 << 62)
