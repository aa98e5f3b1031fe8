"""DiffGen: generalize a table for classification, under pure differential privacy.

The promise, the algorithm and the proofs are in ``diffgen.md`` beside this file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

from hushtable.engine.base import MAX_HISTOGRAM
from hushtable.engine.sealed import SealedTable
from hushtable.errors import ParameterError, Refused, TooLarge
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released
from hushtable.methods.count_error import (
    laplace_error,
    n_asked,
    needed_rows,
    width_line,
    width_through_cells,
)
from hushtable.methods.diffgen.cut_drawing import draw_cuts
from hushtable.methods.diffgen.generalized_table import COUNT, NOISY_COUNT, generalized_table
from hushtable.methods.diffgen.parts import Part as CutPart
from hushtable.methods.diffgen.parts import largest_gains, top
from hushtable.methods.diffgen.specialize import (
    ClassCounts,
    Cuts,
    Specialization,
    plain_cut,
    specialize_as_printed,
    specialize_jointly,
)
from hushtable.methods.diffgen.target import target_and_predictors
from hushtable.methods.parameters import Reader, parameter, whole
from hushtable.privacy.class_scores import (
    BALANCED,
    InformationGain,
    Integers,
    Score,
    ScoreName,
    make_score,
)
from hushtable.privacy.domain_mechanism import DomainMechanism, NoisyCells
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.mechanism import Laplace
from hushtable.privacy.noise import Noise
from hushtable.privacy.sealed import Sealed
from hushtable.recoding import recoded_domain
from hushtable.schema import Categorical, Schema

Calibration = Literal["tight", "paper"]

AUTO = "auto"

CLASS_SIZES_SHARE = Fraction(1, 50)
"""Share of epsilon spent on the sizes of the classes, where they are needed."""

CAUTION = 2
"""With ``auto``: by how many standard deviations a noisy number of rows is taken lower."""

NOISE_PER_GROUP = 10
"""With ``auto``: how many times its noise scale a group should hold, see diffgen.md."""

MISREAD_PER_GROUP = 0.3
"""With ``auto``: what noise of scale 1 on a group costs its majority at most, see diffgen.md."""

MOST_LOST = 0.1
"""Choices that lose a larger share of the rows are said to be nearly at random."""

LEAST_SHARE = Fraction(1, 8)
"""With ``auto``: neither the cuts nor the counts get less than this."""

_TYPICAL_ROWS = 100_000  # what a forecast takes where it is not told


def _or_auto(read: Reader, allowed: str) -> Reader:
    """Make a reader of a number that may be left to the method."""

    def read_number(name: str, given: Any) -> Any:
        try:
            return AUTO if given == AUTO else read(name, given)
        except ParameterError:
            problem = f"{name} is {given}; it must {allowed}, or auto."
            raise ParameterError(problem) from None

    return read_number


@dataclass(frozen=True, kw_only=True)
class DiffGen(Method):
    """Publish generalized rows with noisy counts, made for predicting one column.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss of the whole release, such as 1 or ln(5).
    specializations : int or "auto"
        How often a part of a cut is split; ``auto`` takes it from epsilon and the number of rows,
        and stops where a split would make more groups than they bear. That number is the public
        one, or the sum of noisy class sizes that 1/50 of epsilon is spent on.
    target : str, optional
        The column to predict, categorical; the schema's target if it is not given.
    score : {"balanced-gain", "balanced-max", "max", "information-gain", "total-variation"}
        What a split is valued by; ``max`` and ``information-gain`` are the paper's. The balanced
        ones spend 1/50 of epsilon on the sizes of the classes. ``balanced-gain`` predicts well
        whatever was predicted; ``balanced-max`` a little better where single splits near the top
        tell most.
    calibration : {"tight", "paper"}
        ``tight`` gets most out of epsilon; ``paper`` divides it as printed, to compare with.
    structure_share : number, str or "auto"
        Share of epsilon for choosing the cuts, between 0 and 1, or ``auto``. The rest is for the
        counts. The paper's is 1/2. ``auto`` takes more of it for few specializations, whose groups
        are large, and fewer for many; it is 1/2 for ``paper`` and for specializations that are
        ``auto``.
    consistent : bool
        Make rows from least-squares counts: non-negative, and together as many as the number of
        rows that is published. Otherwise counts are only cut off at 0, and the noise of empty
        groups comes out as rows.
    max_groups : int
        Publish all groups up to this number, else only those of high noisy counts: so high that
        about this many empty groups at most reach them.

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
    paper: ClassVar[str] = (
        "Mohammed, Chen, Fung and Yu, differentially private release for data mining, repaired."
    )
    summary: ClassVar[str] = "Generalize for predicting one column; noisy counts of all groups."
    estimator_kind: ClassVar[str] = "generalized"

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
        """Say that the paper's calibration has a share of its own."""
        if self.calibration == "paper" and self.structure_share not in (AUTO, Fraction(1, 2)):
            return [
                f"structure_share is {self.structure_share}, but the calibration paper has 1/2; "
                "leave it out."
            ]
        return []

    def plan(self, schema: Schema) -> DiffGenPlan:
        """Work out everything that is fixed before the data is read, or refuse."""
        target, predictors = target_and_predictors(schema, self.target, method=self.name)
        n_classes = schema.attributes[target].size
        too_large = [
            f"column {name!r}: {schema.attributes[name].size:,} values by {n_classes} classes are "
            f"over the limit of {MAX_HISTOGRAM:,} cells; use a coarser step or tighter bounds."
            for name in predictors
            if schema.attributes[name].size * n_classes > MAX_HISTOGRAM
        ]
        if too_large:
            raise TooLarge(too_large)
        return DiffGenPlan(method=self, schema=schema, target=target, predictors=predictors)


@dataclass(frozen=True)
class DiffGenPlan(Plan[SealedTable]):
    """Hold what a run of DiffGen does under a schema, all of it public.

    Parameters
    ----------
    method : DiffGen
        The parameters.
    schema : Schema
        The public schema.
    target : str
        The column to predict.
    predictors : tuple of str
        All other columns.
    """

    method: DiffGen
    schema: Schema
    target: str
    predictors: tuple[str, ...]

    @property
    def n_classes(self) -> int:
        """Number of values of the target, missing included."""
        return self.schema.attributes[self.target].size

    @property
    def max_rows(self) -> int:
        """Rows of one unit."""
        return self.schema.unit.max_rows or 1

    @cached_property
    def most_rounds(self) -> int:
        """How many splits taxonomies, grids and lists allow, in whatever order they are made."""
        return sum(self.top(name).n_rounds for name in self.predictors)

    @property
    def one_by_one(self) -> bool:
        """Whether values of a list without taxonomy are split off one at a time."""
        return self.method.calibration == "tight"

    def top(self, name: str) -> CutPart:
        """Give the topmost part of a column."""
        return top(name, self.schema.attributes[name], one_by_one=self.one_by_one)

    @property
    def n_numeric(self) -> int:
        """Number of numeric predictors."""
        columns = self.schema.attributes
        return sum(not isinstance(columns[name], Categorical) for name in self.predictors)

    # --- what hangs on it -------------------------------------------------------------------------

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Pure differential privacy for one added or removed unit."""
        epsilon, unit = self.method.epsilon, self.schema.unit
        return (PureDP(epsilon=epsilon, unit=unit, neighbors="add-remove"),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Say how many splits there will be, how noisy the counts, and how full the groups."""
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
            of = "100,000 rows, say" if rows is None else f"{rows:,} rows"
            lines["specializations are chosen"] = f"from noisy class sizes; shown for {of}"
        if method.specializations != AUTO and self.most_rounds < int(method.specializations):
            lines["note"] = (
                f"taxonomies, grids and lists allow {self.most_rounds} splits; it stops there."
            )
        if rows is not None:
            if method.consistent:
                lines["rows that come out, about"] = rows
            lines["rows per group, if spread evenly"] = rows / n_cells
            lines |= width_line(self.typical_width(rows))
            if rows / n_cells < spread:
                lines["warning"] = (
                    "the noise is larger than a typical count. Use fewer specializations, or auto."
                )
            elif self.rows_lost(n_rounds) > rows * MOST_LOST:
                lines["warning"] = (
                    f"with {rows:,} rows the splits are chosen nearly at random; what is learned "
                    "from the release may do no better than naming the most frequent class."
                )
        biggest = max(schema.attributes[name].size for name in self.predictors)
        listed = min(n_cells, 2 * method.max_groups)
        memory = 8e-6 * (5 * biggest * self.n_classes + 4 * len(schema.attributes) * listed)
        return Forecast(
            lines=lines, split=self.split(), n_cells=n_cells, memory_mb=max(1.0, memory)
        )

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Add up the noise of the groups."""
        rows = self.schema.expected_rows(rows)
        known = needed_rows(rows) if self.method.specializations == AUTO else 0
        n_groups = self.most_groups(known)
        if n_groups > self.method.max_groups:
            raise Refused(
                f"{n_groups:,} groups are more than max_groups, so those with a low count are left "
                "out, and how much that loses depends on the private rows. Use fewer "
                "specializations."
            )
        return laplace_error(
            self.rate,
            n_asked(share, n_groups),
            "The question takes the same share of the groups as of the rows; there are as many "
            f"groups as {self.n_rounds(known)} specializations can make.",
        )

    def typical_width(self, rows: int) -> float:
        """Expect the cuts to be spread over the predictors, which is the best case for counts."""
        n_rounds = self.n_rounds(rows)
        try:
            error = self.count_error(rows=rows, share=0.5)
        except Refused:  # with so many groups, take those of splits in two
            error = laplace_error(self.rate, n_asked(0.5, self.n_classes * 2**n_rounds), "")
        return width_through_cells(
            n_cuts=n_rounds,
            sizes=[self.schema.attributes[name].size for name in self.predictors],
            n_columns=len(self.schema.attributes),
            error=error,
            rows=rows,
        )

    def hollow(self, rows: int) -> str:
        """Judge by counts, and say that predictions are another matter."""
        why = super().hollow(rows)
        return why and f"{why} A model of {self.target!r} may be learned from it all the same."

    @property
    def spends_all(self) -> bool:
        """The paper's calibration sets aside for choices that are not always made."""
        return self.method.calibration == "tight"

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Count values by class once, choose the cuts, count the groups once, add noise to all."""
        histograms = source.histograms(self.predictors, by=self.target)
        sizes = self.class_sizes(next(iter(histograms.values())).sum(axis=0), noise)
        total = self.row_total(sizes)
        columns = self.schema.attributes
        cuts = Cuts(
            {name: ClassCounts(columns[name], histograms[name]) for name in self.predictors},
            make_score(self.method.score, sizes),
            one_by_one=self.one_by_one,
        )
        rate = self.rate + self.specialize(cuts, total or 0, noise) / self.max_rows
        recode = cuts.recodings()
        # Attributes that were never split have one value for all, and need not be counted.
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
        """What is spent on the sizes of the classes: for weights, or for the number of rows."""
        for_rows = self.method.specializations == AUTO and self.schema.counted_rows is None
        needed = for_rows or self.method.score in BALANCED
        return self.method.epsilon * CLASS_SIZES_SHARE if needed else Fraction(0)

    @property
    def class_sizes_scale(self) -> Fraction:
        """Scale of the noise of a class size."""
        return self.max_rows / self.sizes_epsilon

    @property
    def structure_epsilon(self) -> Fraction:
        """What is spent on choosing the cuts; nothing if there is nothing to choose."""
        if self.most_rounds == 0:
            return Fraction(0)
        return (self.method.epsilon - self.sizes_epsilon) * self.structure_share

    @property
    def structure_share(self) -> Fraction:
        """What part of the rest goes to the cuts; fixed before the data is read."""
        given, wanted = self.method.structure_share, self.method.specializations
        if isinstance(given, Fraction):
            return given
        if wanted == AUTO or self.method.calibration == "paper":
            return Fraction(1, 2)
        h = min(int(wanted), self.most_rounds)
        # Rows lost are at most h**2 ln(attributes) / e_1 by the choices and MISREAD_PER_GROUP 2**h
        # / e_2 by the counts; a/e_1 + b/e_2 is least for e_1 : e_2 as the roots of a and b.
        by_choices = h * math.sqrt(math.log(len(self.predictors) + 1))
        by_counts = math.sqrt(MISREAD_PER_GROUP) * 2.0 ** (min(h, 100) / 2)
        share = Fraction(round(32 * by_choices / (by_choices + by_counts)), 32)
        return min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)

    @property
    def counts_epsilon(self) -> Fraction:
        """What is spent on the counts."""
        return self.method.epsilon - self.sizes_epsilon - self.structure_epsilon

    @property
    def rate(self) -> Fraction:
        """How fast the noise of a count falls off, per row; faster where cuts leave something."""
        return self.counts_epsilon / self.max_rows

    def split(self) -> dict[str, Fraction]:
        """Say how epsilon is divided."""
        parts = {
            "class sizes": self.sizes_epsilon,
            "cuts": self.structure_epsilon,
            "counts": self.counts_epsilon,
        }
        return {name: share for name, share in parts.items() if share}

    # --- the splits -------------------------------------------------------------------------------

    def n_rounds(self, rows: int) -> int:
        """Give the number of splits for a number of rows that is public by now."""
        wanted = self.method.specializations
        if wanted == AUTO:
            wanted = self.borne_groups(rows).bit_length() - 1  # each split makes twice as many
        return min(int(wanted), self.most_rounds)

    def borne_groups(self, rows: int) -> int:
        """Give how many groups, apart from classes, hold NOISE_PER_GROUP noise scales each.

        A noisy number of rows is taken lower by what its noise may be: too few groups lose less
        than too many.
        """
        least = float(rows)
        if self.schema.counted_rows is None and self.sizes_epsilon:
            least -= CAUTION * math.sqrt(2 * self.n_classes) * float(self.class_sizes_scale)
        return max(1, math.floor(least * float(self.rate) / NOISE_PER_GROUP))

    def rows_lost(self, n_rounds: int) -> float:
        """Say how many rows so many choices may cost, each falling short of the best."""
        if not n_rounds:
            return 0.0
        spread = n_rounds**2 * math.log(len(self.predictors) + 1) * self.max_rows
        return spread / float(self.structure_epsilon)

    def most_groups(self, rows: int) -> int:
        """Give the largest number of groups that splits can make for a number of rows.

        Groups are the product of the sizes of the cuts. Each split is spent where it multiplies
        most, which is best since a cut grows by less and less.
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
        """Whether splits stop where there would be more groups than the rows bear."""
        return self.method.specializations == AUTO and self.method.calibration == "tight"

    def round_epsilon(self, n_rounds: int) -> Fraction:
        """Give what a single choice is paid with: per round, or the paper's epsilon'."""
        if self.method.calibration == "tight":
            return self.structure_epsilon / n_rounds
        # A person's rows may be in both intervals that a split makes. Most scores move in each by
        # the share of the rows that is in it; information gain moves by up to its range in both.
        in_both = self.max_rows > 1 and self.method.score == InformationGain.name
        return self.structure_epsilon / (self.n_numeric + (3 if in_both else 2) * n_rounds)

    def sensitivity(self, score: Score) -> int:
        """Give the sensitivity of the score that the calibration takes."""
        given = {"n_classes": self.n_classes, "max_rows": self.max_rows}
        if self.method.calibration == "tight":
            return score.sensitivity(**given)
        return score.sensitivity_of_paper(**given)

    def specialize(self, cuts: Cuts, rows: int, noise: Noise) -> Fraction:
        """Choose the cuts; give what is left of their epsilon, for the counts."""
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

    def class_sizes(self, sizes: Sealed, noise: Noise) -> Integers | None:
        """Draw the published sizes of the classes, if they are needed; they may be negative."""
        if not self.sizes_epsilon:
            return None
        drawn: Integers = noise.open(sizes, Laplace(self.class_sizes_scale), "class sizes")
        return drawn

    def row_total(self, sizes: Integers | None) -> int | None:
        """Give the number of rows as far as it is public: told, or the sum of the class sizes."""
        public = self.schema.counted_rows
        if public is not None or sizes is None:
            return public
        return max(0, int(sizes.sum()))

    def fitted_total(self, total: int | None, groups: DomainMechanism, noisy: NoisyCells) -> int:
        """Give the number of rows that consistent counts add up to, from all that says it."""
        if total is None:
            return groups.total_of(noisy)
        if self.schema.counted_rows is not None or groups.threshold is not None:
            return total
        # Both sums are unbiased, so they are weighed by how exact they are.
        of_sizes = 2 * self.n_classes * float(self.class_sizes_scale) ** 2
        of_groups = groups.domain.size * groups.variance
        share = of_groups / (of_sizes + of_groups)
        return max(0, round(share * total + (1 - share) * int(noisy.noisy.sum())))


def _notes(plan: DiffGenPlan, rounds: list[Specialization], groups: DomainMechanism) -> list[str]:
    wanted = plan.method.specializations
    notes = ["The cuts are drawn in `cuts.svg`."]
    if wanted != AUTO and len(rounds) < int(wanted):
        notes.append(
            f"{wanted} specializations were asked for; taxonomies, grids and lists allow "
            f"{len(rounds)}."
        )
    if wanted == AUTO and not rounds:
        notes.append("There are too few rows for a split: the counts are those of the classes.")
    if groups.threshold is None:
        notes.append(
            f"`{NOISY_COUNT}` is a group's count with noise of standard deviation "
            f"{math.sqrt(groups.variance):.3g}: unbiased, negative ones included. `{COUNT}` is "
            + ("its least-squares fit." if plan.method.consistent else "the same cut off at 0.")
        )
    else:
        notes.append(
            f"There are {groups.domain.size:,} groups; those with a noisy count below "
            f"{groups.threshold} are not listed, and rare groups are among them."
        )
    return notes
