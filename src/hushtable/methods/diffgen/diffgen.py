"""Method diffgen: generalize a table for classification, under pure differential privacy.

Guarantee, algorithm and proofs: ``diffgen.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

from hushtable.arrays import Integers
from hushtable.engine.engine import MAX_HISTOGRAM
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError, Refused, TooLarge
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, Method, Released
from hushtable.methods.count_error import (
    laplace_error,
    n_asked,
    needed_rows,
    width_line,
    width_through_cells,
)
from hushtable.methods.diffgen.cuts import (
    CutPart,
    CutSet,
    Specialization,
    draw_cuts,
    largest_gains,
    specialize_as_printed,
    specialize_jointly,
    top,
)
from hushtable.methods.diffgen.generalized_table import (
    GeneralizedPlan,
    generalized_table,
    plain_cut,
    target_and_predictors,
)
from hushtable.methods.parameters import Reader, parameter, said, whole
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.mechanisms.cells import DomainMechanism, NoisyCells
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.scored_splits import (
    BALANCED,
    InformationGain,
    Score,
    ScoreName,
    make_score,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.query.answers.cell_sums import COUNT, NOISY_COUNT
from hushtable.schema import Categorical, Schema
from hushtable.schema.recoding import recoded_domain

Calibration = Literal["tight", "paper"]

AUTO = "auto"

CLASS_SIZES_SHARE = Fraction(1, 50)
"""Share of epsilon for the sizes of the classes, if they are needed."""

CAUTION = 2
"""With ``auto``: standard deviations subtracted from a noisy number of rows."""

NOISE_PER_GROUP = 10
"""With ``auto``: rows that a group should have, in units of its noise scale; see diffgen.md."""

MISREAD_PER_GROUP = 0.3
"""With ``auto``: largest loss of a group's majority per unit of noise scale; see diffgen.md."""

MOST_LOST = 0.1
"""Choices that may lose a larger share of the rows are reported as nearly random."""

LEAST_SHARE = Fraction(1, 8)
"""With ``auto``: minimum share of the cuts, and of the counts."""

_TYPICAL_ROWS = 100_000  # number of rows that forecasts assume if none is given


def _or_auto(read: Reader, allowed: str) -> Reader:
    """Return a reader of a number that may also be "auto"."""

    def read_number(name: str, given: Any) -> Any:
        try:
            return AUTO if given == AUTO else read(name, given)
        except ParameterError:
            problem = f"{name} is {given}; it must {allowed}, or auto."
            raise ParameterError(problem) from None

    return read_number


@dataclass(frozen=True, kw_only=True)
class DiffGen(Method):
    """Publish generalized rows with noisy counts, optimized for predicting one column.

    Parameters
    ----------
    epsilon : number or str
        Epsilon of the whole release, such as 1 or ln(5).
    specializations : int or "auto"
        Number of splits of the cuts; ``auto`` derives it from epsilon and the number of rows. It
        stops before a split would make more groups than the rows support. The number of rows is the
        public one, or the sum of noisy class sizes, which cost 1/50 of epsilon.
    target : str, optional
        Categorical column to predict; by default, the schema's target.
    score : {"balanced-gain", "balanced-max", "max", "information-gain", "total-variation"}
        Score of a split; ``max`` and ``information-gain`` are the paper's. The balanced scores
        spend 1/50 of epsilon on the sizes of the classes. ``balanced-gain`` predicts well for all
        tested targets; ``balanced-max`` is slightly better if single splits near the top are most
        informative.
    calibration : {"tight", "paper"}
        How epsilon is divided: ``tight`` uses it best, ``paper`` divides it as printed (for
        comparison).
    structure_share : number, str or "auto"
        Share of epsilon for choosing the cuts, between 0 and 1, or ``auto``. The rest is for the
        counts. The paper's is 1/2. ``auto`` is larger for few specializations, whose groups are
        large, and smaller for many; it is 1/2 for ``paper`` and for automatic specializations.
    consistent : bool
        Make rows from least-squares counts, which are non-negative and sum to the published number
        of rows. Otherwise counts are only clipped at 0, and the noise of empty groups adds rows.
    max_groups : int
        Publish all groups up to this number, otherwise only those with high noisy counts. The
        threshold is such that about this many empty groups exceed it at most.

    Examples
    --------
    >>> DiffGen(epsilon=1, specializations=10, target="income").score
    'balanced-gain'
    >>> DiffGen(epsilon=1, specializations=0, score="gini")
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: specializations is 0; it must be a whole number of at least \
1, or auto.
    score is 'gini'; it must be balanced-gain, balanced-max, max, information-gain or \
total-variation.
    """

    name: ClassVar[str] = "diffgen"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    specializations: int | str = parameter(
        read=_or_auto(whole(), "be a whole number of at least 1"), default=AUTO
    )
    target: str | None = parameter(default=None)
    score: ScoreName = parameter(default="balanced-gain")
    calibration: Calibration = parameter(default="tight")
    structure_share: Fraction | str = parameter(
        read=_or_auto(parameters.part, "lie between 0 and 1"), default=AUTO
    )
    consistent: bool = parameter(default=True)
    max_groups: int = parameter(read=whole(), default=100_000)

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Check that the paper's calibration is not combined with another share."""
        if self.calibration == "paper" and self.structure_share not in (AUTO, Fraction(1, 2)):
            return [said("share of the paper", structure_share=self.structure_share)]
        return []

    def plan(self, schema: Schema) -> DiffGenPlan:
        """Compute everything that is fixed before the data is read, or refuse."""
        target, predictors = target_and_predictors(schema, self.target, method=self.name)
        n_classes = schema.attributes[target].size
        too_large = [
            said(
                "large histogram",
                name=name,
                size=schema.attributes[name].size,
                n_classes=n_classes,
                limit=MAX_HISTOGRAM,
            )
            for name in predictors
            if schema.attributes[name].size * n_classes > MAX_HISTOGRAM
        ]
        TooLarge.raise_if_any(too_large)
        return DiffGenPlan(method=self, schema=schema, target=target, predictors=predictors)


@dataclass(frozen=True)
class DiffGenPlan(GeneralizedPlan):
    """Plan of method diffgen: target, predictors, and the division of epsilon among the steps."""

    method: DiffGen
    schema: Schema
    target: str  # column to predict
    predictors: tuple[str, ...]  # all other columns

    @property
    def n_classes(self) -> int:
        """Number of values of the target, including missing."""
        return self.schema.attributes[self.target].size

    @property
    def max_rows(self) -> int:
        """Rows of one unit."""
        return self.schema.unit.max_rows or 1

    @cached_property
    def most_rounds(self) -> int:
        """Number of splits that taxonomies, grids and lists allow, in any order."""
        return sum(self.top(name).n_rounds for name in self.predictors)

    @property
    def one_by_one(self) -> bool:
        """True if values of a list without taxonomy are split off one at a time."""
        return self.method.calibration == "tight"

    def top(self, name: str) -> CutPart:
        """Return the topmost part of a column."""
        return top(name, self.schema.attributes[name], one_by_one=self.one_by_one)

    @property
    def n_numeric(self) -> int:
        """Number of numeric predictors."""
        columns = self.schema.attributes
        return sum(not isinstance(columns[name], Categorical) for name in self.predictors)

    # --- guarantees, forecast and run -------------------------------------------------------------

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the number of splits, the noise of counts, and the size of groups."""
        method, schema = self.method, self.schema
        rows = schema.expected_rows(rows)
        likely = _TYPICAL_ROWS if rows is None else rows
        n_rounds = self.n_rounds(likely)
        n_cells = min(self.most_groups(likely), schema.domain.size)
        spread = math.sqrt(
            DomainMechanism(domain=schema.domain, rate=self.rate, max_cells=1).variance
        )
        lines: dict[str, str | float | int] = {
            "specializations": n_rounds,
            "groups, at most": n_cells,
            "standard deviation of a group's count": spread,
        }
        if method.specializations == AUTO and schema.counted_rows is None:
            of = "an assumed 100,000 rows" if rows is None else f"{rows:,} rows"
            lines["specializations are chosen"] = (
                f"from noisy class sizes; this forecast is for {of}"
            )
        if method.specializations != AUTO and self.most_rounds < int(method.specializations):
            lines["note"] = f"taxonomies, grids and lists allow only {self.most_rounds} splits."
        if rows is not None:
            if method.consistent:
                lines["rows in the release, about"] = rows
            lines["rows per group, if evenly distributed"] = rows / n_cells
            lines |= width_line(self.typical_width(rows))
            if rows / n_cells < spread:
                lines["warning"] = (
                    "the noise is larger than a typical count. Use fewer specializations, or auto."
                )
            elif self.rows_lost(n_rounds) > rows * MOST_LOST:
                lines["warning"] = said("random splits", rows=rows)
        biggest = max(schema.attributes[name].size for name in self.predictors)
        listed = min(n_cells, 2 * method.max_groups)
        memory = 8e-6 * (5 * biggest * self.n_classes + 4 * len(schema.attributes) * listed)
        return Forecast(
            lines=lines, split=self.epsilon_by_step(), n_cells=n_cells, memory_mb=max(1.0, memory)
        )

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error, for the largest number of groups that splits can make."""
        rows = self.schema.expected_rows(rows)
        known = needed_rows(rows) if self.method.specializations == AUTO else 0
        n_groups = self.most_groups(known)
        if n_groups > self.method.max_groups:
            raise Refused(said("too many groups", n_groups=n_groups))
        return laplace_error(
            self.rate,
            n_asked(share, n_groups),
            said("groups of a question", n=self.n_rounds(known)),
        )

    def typical_width(self, rows: int) -> float:
        """Return the expected width if cuts are spread over the predictors (the best case)."""
        n_rounds = self.n_rounds(rows)
        try:
            error = self.count_error(rows=rows, share=0.5)
        except Refused:  # too many groups: assume binary splits
            error = laplace_error(self.rate, n_asked(0.5, self.n_classes * 2**n_rounds), "")
        return width_through_cells(
            n_cuts=n_rounds,
            sizes=[self.schema.attributes[name].size for name in self.predictors],
            n_columns=len(self.schema.attributes),
            error=error,
            rows=rows,
        )

    @property
    def follows_paper(self) -> bool:
        """See `Plan`."""
        return self.method.calibration == "paper"

    def uninformative(self, rows: int) -> str:
        """Return the reason, judged by counts, with a note that a model may still be trained."""
        why = super().uninformative(rows)
        return why and f"{why} A model of {self.target!r} may be learned from it all the same."

    @property
    def spends_all(self) -> bool:
        """False for the paper's calibration, which reserves epsilon for choices it may not make."""
        return self.method.calibration == "tight"

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Count values by class once, choose the cuts, count the groups once, add noise to all."""
        histograms = source.histograms(self.predictors, by=self.target)
        sizes = self.class_sizes(next(iter(histograms.values())).sum(axis=0), noise)
        total = self.row_total(sizes)
        score = make_score(self.method.score, sizes)
        cuts = CutSet(self.schema, histograms, score, one_by_one=self.one_by_one)
        rate = self.rate + self.specialize(cuts, total or 0, noise) / self.max_rows
        recode = cuts.recodings()
        # Attributes that were never split have a single value and are not counted.
        split = [name for name in self.predictors if recode[name].size > 1]
        counted = [*split, self.target]
        cells = source.counts(counted, recode={name: recode[name] for name in split})
        groups = DomainMechanism(
            domain=recoded_domain(self.schema, counted, recode),
            rate=rate,
            max_cells=self.method.max_groups,
        )
        noisy = noise.open(cells, groups, "groups")
        table = generalized_table(
            self.schema,
            recode,
            counted,
            noisy,
            total=self.fitted_total(total, groups, noisy),
            consistent=self.method.consistent,
        )
        return Released(
            tables={"data": table},
            settings={
                "target": self.target,
                "rate": str(rate),
                "count_std": math.sqrt(groups.variance),
                "n_groups": groups.domain.size,
                "threshold": groups.threshold,
                "row_total": total,
                "class_sizes": None if sizes is None else sizes.tolist(),
                "class_sizes_scale": None if sizes is None else str(self.class_sizes_scale),
                "columns": {name: plain_cut(recode[name]) for name in self.predictors},
                "specializations": [done.plain() for done in cuts.rounds],
                "notes": _notes(self, cuts.rounds, groups),
            },
            attachments={"cuts.svg": draw_cuts(cuts.rounds, self.schema.name)},
        )

    # --- how epsilon is divided -------------------------------------------------------------------

    @property
    def sizes_epsilon(self) -> Fraction:
        """Epsilon of the class sizes, which give weights or the number of rows."""
        for_rows = self.method.specializations == AUTO and self.schema.counted_rows is None
        needed = for_rows or self.method.score in BALANCED
        return self.method.epsilon * CLASS_SIZES_SHARE if needed else Fraction(0)

    @property
    def class_sizes_scale(self) -> Fraction:
        """Noise scale of a class size."""
        return self.max_rows / self.sizes_epsilon

    @property
    def structure_epsilon(self) -> Fraction:
        """Epsilon for choosing the cuts; 0 if there is no choice."""
        if self.most_rounds == 0:
            return Fraction(0)
        return (self.method.epsilon - self.sizes_epsilon) * self.structure_share

    @property
    def structure_share(self) -> Fraction:
        """Share for the cuts of the epsilon that class sizes leave; fixed before data is read."""
        given, wanted = self.method.structure_share, self.method.specializations
        if isinstance(given, Fraction):
            return given
        if wanted == AUTO or self.method.calibration == "paper":
            return Fraction(1, 2)
        h = min(int(wanted), self.most_rounds)
        # At most h**2 ln(attributes) / e_1 rows are lost by the choices and MISREAD_PER_GROUP 2**h
        # / e_2 by the counts; a/e_1 + b/e_2 is minimal if e_1 : e_2 is the ratio of the roots of a
        # and b.
        by_choices = h * math.sqrt(math.log(len(self.predictors) + 1))
        by_counts = math.sqrt(MISREAD_PER_GROUP) * 2.0 ** (min(h, 100) / 2)
        share = Fraction(round(32 * by_choices / (by_choices + by_counts)), 32)
        return min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)

    @property
    def counts_epsilon(self) -> Fraction:
        """Epsilon of the counts."""
        return self.method.epsilon - self.sizes_epsilon - self.structure_epsilon

    @property
    def rate(self) -> Fraction:
        """Inverse noise scale of a count; a run adds the epsilon that the cuts leave unspent."""
        return self.counts_epsilon / self.max_rows

    def epsilon_by_step(self) -> dict[str, Fraction]:
        """Return the epsilon of each step."""
        parts = {
            "class sizes": self.sizes_epsilon,
            "cuts": self.structure_epsilon,
            "counts": self.counts_epsilon,
        }
        return {name: share for name, share in parts.items() if share}

    # --- the splits -------------------------------------------------------------------------------

    def n_rounds(self, rows: int) -> int:
        """Return the number of splits for a public number of rows."""
        wanted = self.method.specializations
        if wanted == AUTO:
            wanted = self.borne_groups(rows).bit_length() - 1  # as if each split doubled the groups
        return min(int(wanted), self.most_rounds)

    def borne_groups(self, rows: int) -> int:
        """Return how many groups, not divided by class, the rows support.

        Each group should have `NOISE_PER_GROUP` times the noise scale in rows. A noisy number of
        rows is reduced by a margin for its noise, because too few groups lose less than too many.
        """
        least = float(rows)
        if self.schema.counted_rows is None and self.sizes_epsilon:
            least -= CAUTION * math.sqrt(2 * self.n_classes) * float(self.class_sizes_scale)
        return max(1, math.floor(least * float(self.rate) / NOISE_PER_GROUP))

    def rows_lost(self, n_rounds: int) -> float:
        """Estimate the sum, in rows, by which scores of private choices miss the best ones."""
        if not n_rounds:
            return 0.0
        spread = n_rounds**2 * math.log(len(self.predictors) + 1) * self.max_rows
        return spread / float(self.structure_epsilon)

    def most_groups(self, rows: int) -> int:
        """Return the largest number of groups that splits can make for a number of rows.

        The number of groups is the product of the sizes of the cuts. Each split goes where it
        multiplies most, which is optimal because the gains of a cut decrease.
        """
        n_rounds = self.n_rounds(rows)
        gains = {name: largest_gains(self.top(name), n_rounds) for name in self.predictors}
        sizes = dict.fromkeys(self.predictors, 1)
        for _ in range(n_rounds):
            able = [name for name in self.predictors if gains[name]]
            if not able:
                break
            best = max(able, key=lambda name: Fraction(gains[name][0], sizes[name]))
            sizes[best] += gains[best].pop(0)
        n_groups = math.prod(sizes.values())
        if self.stops:
            n_groups = min(n_groups, self.borne_groups(rows))
        return self.n_classes * n_groups

    @property
    def stops(self) -> bool:
        """True if splits stop before there are more groups than the rows support."""
        return self.method.specializations == AUTO and self.method.calibration == "tight"

    def round_epsilon(self, n_rounds: int) -> Fraction:
        """Return the epsilon of a single choice: per round, or the paper's epsilon'."""
        if self.method.calibration == "tight":
            return self.structure_epsilon / n_rounds
        # A person's rows may be in both intervals of a split. Most scores change in each by the
        # share of the rows that is in it; information gain changes by up to its range in both.
        in_both = self.max_rows > 1 and self.method.score == InformationGain.name
        return self.structure_epsilon / (self.n_numeric + (3 if in_both else 2) * n_rounds)

    def sensitivity(self, score: Score) -> int:
        """Return the sensitivity of the score under the calibration."""
        given = {"n_classes": self.n_classes, "max_rows": self.max_rows}
        if self.method.calibration == "tight":
            return score.sensitivity(**given)
        return score.sensitivity_of_paper(**given)

    def specialize(self, cuts: CutSet, rows: int, noise: Noise) -> Fraction:
        """Choose the cuts; return the unspent part of their epsilon, which goes to the counts."""
        n_rounds = self.n_rounds(rows)
        if n_rounds == 0:
            return self.structure_epsilon
        each = self.round_epsilon(n_rounds)
        sensitivity = self.sensitivity(cuts.score)
        if self.method.calibration == "paper":
            specialize_as_printed(
                cuts, n_rounds=n_rounds, epsilon=each, sensitivity=sensitivity, noise=noise
            )
            return Fraction(0)
        specialize_jointly(
            cuts,
            n_rounds=n_rounds,
            epsilon=each,
            sensitivity=sensitivity,
            noise=noise,
            most_groups=self.borne_groups(rows) if self.stops else None,
        )
        return each * (n_rounds - len(cuts.rounds))

    # --- the sizes of the classes -----------------------------------------------------------------

    def class_sizes(self, sizes: SealedCounts, noise: Noise) -> Integers | None:
        """Return noisy class sizes if they are needed; they may be negative."""
        if not self.sizes_epsilon:
            return None
        drawn: Integers = noise.open(sizes, Laplace(self.class_sizes_scale), "class sizes")
        return drawn

    def row_total(self, sizes: Integers | None) -> int | None:
        """Return the public number of rows: from the schema, or the sum of noisy class sizes."""
        public = self.schema.counted_rows
        if public is not None or sizes is None:
            return public
        return max(0, int(sizes.sum()))

    def fitted_total(self, total: int | None, groups: DomainMechanism, noisy: NoisyCells) -> int:
        """Return the number of rows that consistent counts sum to, from all available estimates."""
        if total is None:
            return groups.total_of(noisy)
        if self.schema.counted_rows is not None or groups.threshold is not None:
            return total
        # Both sums are unbiased, so they are weighted by precision.
        of_sizes = 2 * self.n_classes * float(self.class_sizes_scale) ** 2
        of_groups = groups.domain.size * groups.variance
        share = of_groups / (of_sizes + of_groups)
        return max(0, round(share * total + (1 - share) * int(noisy.noisy.sum())))


def _notes(plan: DiffGenPlan, rounds: list[Specialization], groups: DomainMechanism) -> list[str]:
    wanted = plan.method.specializations
    notes = ["The cuts are drawn in `cuts.svg`."]
    if wanted != AUTO and len(rounds) < int(wanted):
        notes.append(said("fewer specializations", wanted=wanted, allowed=len(rounds)))
    if wanted == AUTO and not rounds:
        notes.append("There are too few rows for a split, so only classes are counted.")
    if groups.threshold is None:
        notes.append(
            said(
                "noisy counts of groups",
                noisy=NOISY_COUNT,
                std=math.sqrt(groups.variance),
                count=COUNT,
            )
            + ("its least-squares fit." if plan.method.consistent else "the same clipped at 0.")
        )
    else:
        notes.append(said("unlisted groups", n=groups.domain.size, threshold=groups.threshold))
    return notes
