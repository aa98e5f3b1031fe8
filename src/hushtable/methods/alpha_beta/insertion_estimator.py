"""Estimator of sets of tuples, of which some are noise with known insertion probabilities.

Let a condition hold for q tuples of the private table and for n_D of the domain. Of the published
tuples, n_V satisfy it, with

    E[n_V] = alpha q + (the sum of beta over the n_D tuples),

so (n_V - that sum) / alpha is unbiased. If rows are counted, up to C equal ones, q is a number of
rows and alpha / C replaces alpha. The sum is over the whole domain; it is computed by factoring the
condition and is exact for domains of any size. n_V is a sum of independent Bernoulli variables
whose distribution depends only on q, so an interval consists of the q for which n_V is not
surprising.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa

from hushtable.arrays import Bools, Floats, Integers
from hushtable.errors import ParameterError
from hushtable.methods.alpha_beta.alpha_beta import VIEW, AlphaBeta, insertion_series
from hushtable.methods.alpha_beta.two_rates import (
    CopyRateCount,
    RandomizedCount,
    TwoRateCount,
    ends,
)
from hushtable.numeric import NORMAL
from hushtable.privacy.mechanisms.tuple_perturbation import SourceInsertions, UniformInsertions
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import (
    About,
    ComparableRelease,
    Generator,
    KnownNoiseRows,
    published_rows,
)
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, no_less, pair_matrix
from hushtable.query.where import Predicate, parse
from hushtable.schema.codes import as_numpy, plain

_LARGEST = 10**300  # exceeds any number of tuples, and fits a float


@dataclass(frozen=True)
class _Again(RandomizedCount):
    """Observed count of a condition in the last view of Algorithm 4, given all earlier views."""

    n_again: int  # observed in this view and before
    n_fresh: int  # observed in this view for the first time
    n_before: int  # observed in any earlier view
    expected_fresh: float  # expected first observations if no such tuple is in the table
    keep: float  # probability that a tuple of the table is in this view
    again: float  # the same for another tuple that was observed before
    fresh: float  # the same for any other tuple
    most: int  # largest possible count

    @property
    def _old(self) -> float:
        """Estimate of the count among tuples observed before."""
        return (self.n_again - self.again * self.n_before) / (self.keep - self.again)

    @property
    def unbiased(self) -> float:
        new = (self.n_fresh - self.expected_fresh) / (self.keep - self.fresh)
        return self._old + new

    @property
    def step(self) -> float:
        return 1 / (self.keep - (self.again if self.n_before else self.fresh))

    def std(self, q: float) -> float:
        """Return the standard deviation, with the count split as estimated between old and new."""
        old = min(max(self._old, 0.0), float(self.n_before), q)
        kept = self.keep * (1 - self.keep)
        first = old * kept + (self.n_before - old) * self.again * (1 - self.again)
        unkept = max(self.expected_fresh - (q - old) * self.fresh, 0.0)
        second = (q - old) * kept + unkept * (1 - self.fresh)
        return math.sqrt(
            first / (self.keep - self.again) ** 2 + second / (self.keep - self.fresh) ** 2
        )

    def interval(self) -> tuple[float, float]:
        def fits(q: float) -> bool:
            return abs(self.unbiased - q) <= NORMAL * self.std(q) + self.step / 2

        return ends(fits, self.unbiased, self.most)


class InsertionEstimator(Estimator):
    """Estimator of counts of distinct tuples, or of rows, after insertions and deletions."""

    counted: About = "distinct tuples"

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self.method = AlphaBeta(**self.parameters)
        # From the plan, not its guarantees: releases with an empty guarantee can still be read.
        self._plan = self.method.plan(self.schema)
        self.noise = self._plan.noise
        self.counted = "distinct tuples" if self.noise.copies == 1 else "rows"
        # Increase of the publication probability per row.
        self.gain = self.noise.alpha / self.noise.copies
        self.view = int(self.settings[VIEW])
        self.notes = tuple(self.settings["notes"])

    @property
    def unit_text(self) -> str:
        """Unit of counts for display."""
        return self._plan.unit_text

    @cached_property
    def _tuple_numbers(self) -> Integers:
        """One number per distinct tuple, over all views."""
        keys = self.schema.domain.pack(np.column_stack(list(self.codes.values())))
        return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1]).reshape(-1)

    def frame(self) -> pa.Table:
        """Return the tuples as published, including inserted ones."""
        return plain(self.table.select(list(self.schema.attributes)))

    def published(self, rng: Generator) -> ComparableRelease:
        """Return the tuples in comparable form, with the expected contribution of insertions."""
        noise, n_views, table = self.noise, self.view, self.table
        if self.method.repeats:
            # Later views depend on the first, which alone has two independent rates.
            table, n_views = table.filter(pa.array(table.column(VIEW).to_numpy() == 1)), 1
        if isinstance(noise, UniformInsertions):
            background = KnownNoiseRows(n_views * noise.expected)
        else:
            first = next(iter(self.schema.attributes)).replace('"', '""')
            everything = parse(f'"{first}" IS NOT NULL OR TRUE', self.schema)
            shares = {
                name: np.asarray(weights, np.float64) / sum(weights)
                for name, weights in zip(noise.domain.names, noise.weights, strict=True)
            }
            background = KnownNoiseRows(n_views * expected_insertions(everything, noise), shares)
        return published_rows(
            self.schema,
            table.select(list(self.schema.attributes)),
            about=self.counted,
            background=background,
            notes=(
                "This release contains distinct tuples, so the original is compared without "
                "duplicates."
                if self.counted == "distinct tuples"
                else "A tuple is published at most once, more likely if more rows have it.",
                "Most published tuples are noise with a known distribution; its expectation is "
                "subtracted from all distributions. Models are trained on all tuples, noise "
                "included.",
            ),
        )

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over the distinct tuples of the table, or over its rows.

        For Algorithm 4 only the first view is used, which has two independent rates. A tuple of the
        table adds variance beyond that of an insertion, at most gain (1 - gain) per row; the number
        of rows is estimated in the same way as the sums.
        """
        codes, n_views = self.codes, self.view
        if self.method.repeats:
            first = as_numpy(self.table.column(VIEW)) == 1
            codes, n_views = {name: own[first] for name, own in codes.items()}, 1
        gain = float(self.gain)

        def estimate(function: RowFunction) -> tuple[float, float]:
            inserted = n_views * self._inserted(function)
            return (float(function.values(codes).sum()) - inserted) / gain, inserted

        values = np.array([estimate(function)[0] for function in functions])

        def covariance(i: int, j: int) -> float:
            own, inserted = estimate(functions[i] * functions[j])
            return (inserted + gain * (1 - gain) * own) / gain**2

        privacy = pair_matrix(len(functions), covariance, together=together)
        return SumEstimates(
            values, no_less(privacy), np.zeros_like(privacy), counted=self.counted,
            notes=(self.notes[0],),
        )  # fmt: skip

    def _inserted(self, function: RowFunction) -> float:
        """Sum a function over the domain, weighted by insertion probability."""
        noise = self.noise
        if isinstance(noise, UniformInsertions):
            return float(noise.beta) * function.over_domain(self.schema)
        return insertion_series(noise, lambda density: function.over_domain(self.schema, density))

    def count(self, where: str) -> Estimate:
        """Estimate how many distinct tuples of the table, or rows, satisfy a condition."""
        answer = self.answer(where)
        notes = [self.notes[0]]
        if isinstance(answer, TwoRateCount) and answer.n_items * answer.low < 1:
            notes.append(
                "Less than one noise tuple is expected here. If you ask because such a tuple was "
                "published, the interval is too narrow: many of all published tuples are noise."
            )
        return answer.estimate(*notes)

    def answer(self, where: str) -> RandomizedCount:
        """Return the observed counts and probabilities for a condition."""
        predicate = parse(where, self.schema)
        seen = predicate.mask(self.codes)
        n_domain = predicate.count()
        if self.method.repeats:
            return self._answer_again(seen, n_domain)
        # With several views, a tuple of the table is sampled at its own rate in one view; in all
        # other views, and for all other tuples, the insertion rate applies.
        n_items = self.view * n_domain
        if isinstance(self.noise, UniformInsertions):
            inserted: Fraction | float = self.noise.beta
        else:
            # A sum of different rates has a smaller spread than one of equal average rates
            # (Hoeffding 1956), so this interval is conservative.
            inserted = expected_insertions(predicate, self.noise) / max(n_domain, 1)
        copies = self.noise.copies
        return (TwoRateCount if copies == 1 else CopyRateCount)(
            n_seen=int(np.count_nonzero(seen)),
            n_items=n_items,
            low=inserted,
            high=inserted + self.gain,
            most=min(n_domain * copies, _LARGEST),
        )

    def _answer_again(self, seen: Bools, n_domain: int) -> RandomizedCount:
        """Return the counts and probabilities of the last view, given all earlier views."""
        if not isinstance(self.noise, UniformInsertions):
            raise ParameterError("view_rule algorithm-4 does not support a source distribution.")
        last = as_numpy(self.table.column(VIEW)) == self.view
        known = np.zeros(len(last), np.bool_)
        known[self._tuple_numbers[~last]] = True  # indexed by tuple number
        before = np.zeros(len(last), np.bool_)
        before[self._tuple_numbers[~last & seen]] = True
        old = known[self._tuple_numbers]
        keep = self.noise.alpha + self.noise.beta
        fresh = (1 - keep) ** (self.view - 1) * self.noise.beta
        n_before = int(np.count_nonzero(before))
        return _Again(
            n_again=int(np.count_nonzero(seen & last & old)),
            n_fresh=int(np.count_nonzero(seen & last & ~old)),
            n_before=n_before,
            expected_fresh=float(fresh * (n_domain - n_before)),
            keep=float(keep),
            again=float(keep) * math.exp(-1 / self.method.views),
            fresh=float(fresh),
            most=min(n_domain, _LARGEST),
        )


def expected_insertions(predicate: Predicate, noise: SourceInsertions) -> float:
    """Return the sum of beta(t) over all tuples of the domain that satisfy a condition.

    With x = -ln(1 - hit), beta(t) is 1 - exp(-x w(t)). The powers of w(t) are products over the
    columns, so each term of the exponential series is a weighted count that factors like the
    condition. beta is at most 1/2, hence x w(t) is at most ln 2, and the terms decrease quickly.
    """

    def weigh(density: Mapping[str, Floats]) -> float:
        free = math.prod(
            float(density[name].sum())
            for name in noise.domain.names
            if name not in predicate.columns
        )
        return predicate.weigh(density) * free

    return insertion_series(noise, weigh)
