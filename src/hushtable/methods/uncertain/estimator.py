"""Estimator of uncertain records: each is in a range with a probability given by its noise.

The paper's estimate (19) sums, over the records, the probability that the true record is in the
range if it is distributed around the published point like the noise. This smooths twice, because
the published points already scatter around the true ones. To first order in the noise variance,
counting the published points (smoothed once) has half of that error, in the same direction. So
twice the latter minus the former cancels it: the simulation extrapolation of Cook and Stefanski
(1994) with its two exact points. This increases the variance, so the correction D is multiplied by
max(0, 1 - 4 V / D^2), similar to James-Stein shrinkage, where V is its variance. It is used for
wrapped ends only. In open columns, the count of points loses those that noise moved out of the
range, and (21) restores them, so their difference is not only smoothing; the estimate is (21)
without correction. With regions, a published point carries no information beyond the region: each
record is spread evenly over it (smoothed once), and nothing needs correction.

If noise is as wide as the range, no formula restores what was smoothed away, and the published
points do not show it: ten equal records look like ten different ones. The 95% interval therefore
assumes nothing about the records. It combines bounds of the noise range for several probabilities
Q, which share the 5%, and is wide if the noise is. With regions it counts the records whose regions
are inside the range, and those whose regions overlap it. `privacy_std` is the standard deviation of
the estimate; `model_std` is the rest of the distance to the farther end of the interval, so that
1.96 times `std` reaches it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np
import pyarrow as pa

from hushtable.arrays import Bools, Floats, Integers
from hushtable.errors import Refused, TooLarge
from hushtable.extras import needing
from hushtable.numeric import CONFIDENCE, NORMAL
from hushtable.privacy.rational import bisect_exact
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import Block, ComparableRelease, Generator, absent
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, UnitRuler, no_less
from hushtable.query.where import parse
from hushtable.query.where.code_classes import CodeClasses, classify
from hushtable.query.where.formula import Formula, Junction, evaluate
from hushtable.query.where.predicate import independent_parts
from hushtable.schema import Integer, Number, Schema
from hushtable.schema.codes import as_numpy, nearest_codes, to_codes

with needing("science"):
    from scipy.special import betainc, log_ndtr, ndtr, ndtri


# Probability that a noisy record is in a range, and unbiased powers of noisy numbers.


def interval_probability(
    z: Floats,
    width: Floats,
    low: float,
    high: float,
    *,
    model: str,
    domain: tuple[float, float] | None = None,
    wrap: bool = False,
) -> Floats:
    """Return the probability that records distributed around `z` are between two bounds.

    Parameters
    ----------
    z, width : array (n,)
        Published values, and the width of their noise: sigma (Gaussian), or the full width of the
        interval (uniform).
    low, high : float
        The bounds.
    model : {"gaussian", "uniform"}
        Distribution of the records.
    domain : pair of float, optional
        Public range of the column. If given, the probability is conditional on the record being in
        it, as in (21) of the paper. It is computed in log space, so that a point far outside the
        range does not give 0/0.
    wrap : bool
        Whether the ends of the domain are joined.

    Examples
    --------
    >>> far = interval_probability(np.array([99.0]), np.ones(1), 0, 1, model="gaussian",
    ...                            domain=(0, 2))
    >>> bool(0 < far[0] < 1e-40)
    True
    """
    if high <= low:
        return np.zeros(len(z))
    if wrap and domain is not None:
        return _wrapped(z, width, (low, high), domain, model)
    if model == "uniform":
        start = z - width / 2
        if domain is None:
            lowest, highest = start, start + width
        else:
            lowest, highest = np.maximum(start, domain[0]), np.minimum(start + width, domain[1])
        inside = np.minimum(high, highest) - np.maximum(low, lowest)
        return np.asarray(np.clip(inside / np.maximum(highest - lowest, 1e-300), 0, 1))
    mass = _log_mass((low - z) / width, (high - z) / width)
    if domain is not None:
        mass = mass - _log_mass((domain[0] - z) / width, (domain[1] - z) / width)
    return np.asarray(np.minimum(np.exp(mass), 1.0))


def _log_mass(low: Floats, high: Floats) -> Floats:
    """Return log(Phi(high) - Phi(low)) without cancellation in either tail."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore"):
        return np.asarray(upper + np.log(-np.expm1(np.minimum(lower - upper, -0.0))))


def _wrapped(
    z: Floats,
    width: Floats,
    bounds: tuple[float, float],
    domain: tuple[float, float],
    model: str,
) -> Floats:
    period = domain[1] - domain[0]
    total = np.zeros(len(z))
    for turn in (-period, 0.0, period):
        begin, end = bounds[0] + turn - z, bounds[1] + turn - z
        if model == "uniform":
            half = np.minimum(width, period) / 2
            inside = np.minimum(end, half) - np.maximum(begin, -half)
            total += np.maximum(inside, 0) / (2 * half)
        else:  # noise is limited to half of the period
            half = np.full(len(z), period / 2)
            begin, end = np.clip(begin, -half, half), np.clip(end, -half, half)
            total += (ndtr(end / width) - ndtr(begin / width)) / (2 * ndtr(half / width) - 1)
    return np.asarray(np.clip(total, 0, 1))


def unbiased_power(place: Floats, std: Floats, exponent: int, kurtosis: float) -> Floats:
    """Return an unbiased estimate of a power of a number with symmetric noise of known moments.

    The moments E[(x + e)^k] are solved for x^k, from the lowest k on. The sixth and eighth moments
    of the noise are those of the normal or the uniform distribution.

    Examples
    --------
    >>> unbiased_power(np.array([3.0]), np.array([1.0]), 2, 3.0).tolist()
    [8.0]
    """
    normal = kurtosis == 3.0
    of_noise = {
        0: np.ones(len(std)),
        2: std**2,
        4: kurtosis * std**4,
        6: (15.0 if normal else 27 / 7) * std**6,
        8: (105.0 if normal else 9.0) * std**8,
    }
    found: list[Floats] = []
    for k in range(exponent + 1):
        rest = place**k
        for i in range(2, k + 1, 2):
            rest = rest - math.comb(k, i) * of_noise[i] * found[k - i]
        found.append(rest)
    return found[exponent]


# Bounds on a count from the range of the noise, for any private records.
#
# Choose a range of the noise that contains an error with probability at least Q. A record in the
# queried range is then *possible*, judged from its published point, with probability at least Q,
# independently of the others. If N records are in the range, the number of possible ones is at
# least Binomial(N, Q), so an observed number C bounds N by little more than C / Q. In the same way,
# a record outside the range is *certain* with probability at most 1 - Q, which bounds n - N.
# Nothing is assumed about the distribution of the records.


def most_behind(seen: int, chance: float, alpha: float) -> int:
    """Return the largest N for which observing at most `seen` of N has probability >= `alpha`.

    Parameters
    ----------
    seen : int
        Number observed.
    chance : float
        Smallest probability with which each one is observed, independently.
    alpha : float
        Probability with which the true N may exceed the result.

    Examples
    --------
    >>> most_behind(10, 1.0, 0.01)
    10
    >>> most_behind(10, 0.5, 0.01)  # P(Binomial(35, 1/2) <= 10) is 0.0083
    34
    """
    if chance >= 1:
        return seen

    # At most `seen` of N are observed if and only if more than N - seen - 1 failures come before
    # success number seen + 1. The number of these failures is negative binomial.
    def is_implausible(n_failures: int) -> bool:
        return bool(betainc(seen + 1, n_failures + 1, chance) >= 1 - alpha)

    low, high = -1, 1
    while not is_implausible(high):
        low, high = high, 2 * high
    return seen + bisect_exact(lambda n: not is_implausible(n), low, high) + 1


def uniform_noise_range(widths: Floats, chance: float) -> Integers:
    """Return the smallest r such that a uniform error is within r steps with probability `chance`.

    Parameters
    ----------
    widths : array
        Number of equally likely errors around 0, which is odd.
    chance : float
        In (0, 1].

    Examples
    --------
    >>> uniform_noise_range(np.array([1.0, 9.0, 9.0]), 0.5)
    array([0, 2, 2])
    """
    return np.asarray(np.ceil((chance * np.rint(widths) - 1) / 2).clip(0), np.int64)


def gaussian_noise_range(sigmas: Floats, chance: float, n_values: int | None = None) -> Integers:
    """Return an r such that a Gaussian error is within r steps with at least this probability.

    The error is discrete. The sum of the density beyond r is at most its integral from r on, and
    the sum over all integers is at least the integral over all (Poisson summation formula). So the
    error is within r with probability at least (2 Phi(r / sigma) - 1) / A. Here A is 1; for wrapped
    ends, where the error is at most half of the period, A is Phi(h / sigma) + Phi(h' / sigma) - 1,
    with h and h' the largest errors to either side.

    Parameters
    ----------
    sigmas : array
        In steps of the grid.
    chance : float
        In (0, 1).
    n_values : int, optional
        Grid points of the column, if it wraps around.

    Examples
    --------
    >>> gaussian_noise_range(np.array([0.1, 10.0]), 0.95)
    array([ 1, 20])
    """
    inside: Floats | float = 1.0
    if n_values is not None:
        inside = ndtr(n_values // 2 / sigmas) + ndtr((n_values - 1) // 2 / sigmas) - 1
    return np.asarray(np.ceil(sigmas * ndtri((1 + chance * inside) / 2)), np.int64)


MassOf = Callable[[str, CodeClasses, slice], Floats]
Rule = Literal["spread", "points"]

STD, FROM, TO = "_std", "_from", "_to"

CHANCES = (0.1, 0.3, 0.6, 0.9, 0.99, 0.999)
"""Probabilities that noise stays within a range; the interval uses the best of their bounds."""

_INTERVAL_NOTE = (
    "The interval is valid for any private records; the estimate is usually much closer if they "
    "are spread smoothly over the width of the noise."
)
_PSEUDO_NOTE = "Sums over pseudo-records, which have the means and covariances of their groups."
_REGION_NOTE = "Records are assumed to be spread evenly over their regions."
_PLAIN_NOTE = "Noise smooths the count twice; for open columns this is not corrected."

_MAX_TABLE = 10_000  # limit of class combinations of columns that a clause links
_CHUNK = 4_000_000  # numbers per working array


class UncertainEstimator(Estimator):
    """Estimator of counts and sums from uncertain records."""

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        table = self.table
        self._published = Schema.model_validate(
            {
                **self.schema.model_dump(),
                "columns": {
                    name: column
                    for name, column in self.schema.columns.items()
                    if name not in self.schema.attributes or name in table.column_names
                },
            }
        )
        self._model: str = self.settings["model"]
        self._wrap = self.parameters.get("edges") == "wrap"
        self._in_regions = self.parameters.get("edges") == "region"
        self._noisy: list[str] = list(self.settings["noisy"])
        self._n = table.num_rows
        self._z = {name: _floats(table, name) for name in self._noisy}
        self._ends = {
            name: tuple(
                nearest_codes(self._numeric(name), _floats(table, name + end)) for end in (FROM, TO)
            )
            for name in self._noisy
            if self._in_regions
        }
        self._width = {name: self._width_of(name) for name in self._noisy}
        self._codes = {
            name: to_codes(column, table.column(name))
            for name, column in self._published.attributes.items()
            if name not in self._noisy
        }

    def _width_of(self, name: str) -> Floats:
        """Return sigma, or the width of the interval (a whole number of steps)."""
        std = _floats(self.table, name + STD)
        if self._model == "gaussian":
            return std
        step = float(self._numeric(name).exact_step)
        return np.asarray(np.sqrt(12 * std**2 + step**2))

    def _numeric(self, name: str) -> Integer | Number:
        column = self._published.attributes[name]
        assert isinstance(column, Integer | Number)  # noqa: S101 - the method rejects others
        return column

    def published(self, rng: Generator) -> ComparableRelease:
        """Return the records in comparable form, with noisy values rounded to the grids."""
        there = self.schema.of_rows(self._published.attributes)
        codes = {
            name: self._nearest(name) if name in self._noisy else self._codes[name]
            for name in there.attributes
        }
        return ComparableRelease(
            schema=there,
            blocks=(Block(there, codes),),
            whole_rows=self.frame(),
            notes=(
                "Noisy values are rounded to the column's grid and clipped to its range.",
                *absent(self.schema, there),
            ),
        )

    # --- sums -------------------------------------------------------------------------------------

    quantiles_by_counts = True

    @property
    def asked(self) -> Schema:
        """Schema of the published columns."""
        return self._published

    def association_kept(self) -> dict[tuple[str, str], float]:
        """Return the share of correlation left by noise, which increases variances only."""
        if self._model == "pseudo" or self._wrap or self._in_regions or not self._n:
            return {}
        left = {}
        for name in self._noisy:
            place, std = self._place(name)
            spread = float(place.var())
            noise = float(np.mean(std**2))
            left[name] = max(0.0, 1 - noise / spread) ** 0.5 if spread > 0 else 0.0
        names = list(self._published.attributes)
        return {
            (one, two): left.get(one, 1.0) * left.get(two, 1.0)
            for one, two in combinations(names, 2)
            if one in left or two in left
        }

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over records.

        The moments of the noise are known, so powers of a noisy number have unbiased estimates. The
        covariance of the noise is estimated by the product of two estimates minus an unbiased
        estimate of the product.
        """
        problems = [one for one in functions if not self._is_polynomial(one)]
        if problems:
            names = sorted({n for one in problems for n in one.columns if n in self._noisy})
            raise Refused(
                f"{', '.join(names)} is published with noise and cannot select rows; "
                "select rows by carried columns, or ask for a count."
            )
        if self._wrap or self._in_regions:
            noisy = {name for one in functions for name in one.powers if name in self._noisy}
            if noisy and any(one.powers.get(n, 0) for one in functions for n in noisy):
                raise Refused(
                    "noisy columns wrap around, so a number near one end may be "
                    "published near the other and has no mean; ask for a count or a quantile."
                    if self._wrap
                    else "a published number is random in its region and has no mean; ask for a "
                    "count or a quantile, or publish with edges=open."
                )
        single = [self._unbiased(function) for function in functions]
        values = np.array([one.sum() for one in single])
        n = len(functions)
        privacy = np.zeros((n, n))
        for i in range(n):
            for j in range(i, n) if together else (i,):
                if self._model == "pseudo":
                    apart = (single[i] - single[i].mean()) @ (single[j] - single[j].mean())
                else:
                    product = functions[i] * functions[j]
                    apart = single[i] @ single[j] - self._unbiased(product).sum()
                privacy[i, j] = privacy[j, i] = float(apart)
        notes = (_PSEUDO_NOTE,) if self._model == "pseudo" else ()
        return SumEstimates(values, no_less(privacy), np.zeros((n, n)), notes=notes)

    def _is_polynomial(self, function: RowFunction) -> bool:
        tied = any(name in self._noisy for name in function.tied)
        return not tied and all(
            name not in self._noisy or name in function.powers for name in function.factors
        )

    def _unbiased(self, function: RowFunction) -> Floats:
        """Return an unbiased estimate of a function of each true record."""
        result = np.ones(self._n)
        for name, factor in function.factors.items():
            if name not in self._noisy:
                result = result * factor[self._codes[name]]
            elif self._model == "pseudo":
                result = result * self._place(name)[0] ** function.powers[name]
            else:
                place, spread = self._place(name)
                kurtosis = 3.0 if self._model == "gaussian" else 1.8
                result = result * unbiased_power(place, spread, function.powers[name], kurtosis)
        return result if function.over_rows is None else result * function.over_rows(self._codes)

    def _place(self, name: str) -> tuple[Floats, Floats]:
        """Return noisy numbers scaled to -1 to 1, and the standard deviation of their noise."""
        ruler = UnitRuler.of(self._numeric(name))
        std = _floats(self.table, name + STD) if self._model != "pseudo" else np.zeros(self._n)
        return (self._z[name] - ruler.middle) / ruler.half, std / ruler.half

    def _nearest(self, name: str) -> Integers:
        return nearest_codes(self._numeric(name), self._z[name])

    def count(self, where: str) -> Estimate:
        """Estimate how many records satisfy a WHERE clause; the interval needs no assumptions.

        Double smoothing is corrected for wrapped ends. In open columns the estimate is (21).
        """
        formula = parse(where, self._published).formula
        spread = self.probabilities(formula, "spread")
        if self._model == "pseudo":
            return self._pseudo_estimate(float(spread.sum()))
        if not self._noisy_columns(formula):
            n = float(spread.sum())
            return Estimate(value=n, low=n, high=n, privacy_std=0.0, model_std=0.0)
        if self._in_regions:
            return self._estimate(formula, spread, _REGION_NOTE)
        if not self._wrap:
            return self._estimate(formula, spread, _PLAIN_NOTE)
        correction, factor = self._correction(formula, spread)
        return self._estimate(
            formula,
            spread + factor * correction,
            f"Of the first-order correction for double smoothing, {correction.sum():.4g} records, "
            f"{factor:.0%} was applied; the rest is not distinguishable from noise.",
        )

    def _correction(self, formula: Formula, spread: Floats) -> tuple[Floats, float]:
        """Return the first-order correction of each record's weight, and the share to apply."""
        correction = 2 * (self.probabilities(formula, "points") - spread)
        size, variance = float(correction.sum()), 4 * float(np.sum(spread * (1 - spread)))
        return correction, max(0.0, 1 - 4 * variance / size**2) if size else 0.0

    def _pseudo_estimate(self, n: float) -> Estimate:
        """Return a number of pseudo-records, with the error of an independent sample."""
        std = math.sqrt(n * max(1 - n / max(self._n, 1), 0.0))
        margin = NORMAL * std
        return Estimate(
            value=n,
            low=max(n - margin, 0.0),
            high=min(n + margin, float(self._n)),
            privacy_std=std,
            model_std=0.0,
            notes=("Counts pseudo-records; the error from blurring inside groups is unknown.",),
        )

    def _estimate(self, formula: Formula, weights: Floats, note: str) -> Estimate:
        low, high = self._bounds(formula)
        value = min(max(float(weights.sum()), low), high)
        # Records are independent. Their variance around the mean includes that of the true ones, so
        # this is an upper estimate.
        privacy_std = math.sqrt(float(np.sum((weights - weights.mean()) ** 2))) if self._n else 0.0
        farthest = max(value - low, high - value) / NORMAL
        privacy_std = min(privacy_std, farthest)
        return Estimate(
            value=value,
            low=low,
            high=high,
            privacy_std=privacy_std,
            model_std=math.sqrt(farthest**2 - privacy_std**2),
            notes=(_INTERVAL_NOTE, note),
        )

    def _bounds(self, formula: Formula) -> tuple[float, float]:
        """Bound the true count by the numbers of possible and certain records."""
        if self._in_regions:  # every record is certainly in its region
            possible, certain = self._extent(formula, dict.fromkeys(self._noisy_columns(formula)))
            return float(certain.sum()), float(possible.sum())
        chances = (*CHANCES, 1.0) if self._model == "uniform" else CHANCES
        alpha = (1 - CONFIDENCE) / 2 / len(chances)
        n_noisy = len(self._noisy_columns(formula))
        low, high = 0, self._n
        for chance in chances:
            share = chance ** (1 / n_noisy)  # noise is independent between columns
            noise_range = {
                name: self._noise_range(name, share) for name in self._noisy_columns(formula)
            }
            possible, certain = self._extent(formula, noise_range)
            high = min(high, most_behind(int(possible.sum()), chance, alpha))
            low = max(low, self._n - most_behind(int((~certain).sum()), chance, alpha))
        # Each bound may fail; if they cross, the interval spans both.
        return float(min(low, high)), float(max(low, high))

    def _noise_range(self, name: str, chance: float) -> Integers:
        column = self._numeric(name)
        sizes = self._width[name] / float(column.exact_step)
        if self._model == "uniform":
            return uniform_noise_range(sizes, chance)
        return gaussian_noise_range(sizes, chance, column.n_values if self._wrap else None)

    def _extent(
        self, formula: Formula, noise_range: Mapping[str, Integers | None]
    ) -> tuple[Bools, Bools]:
        """Return which records match somewhere within their range, and which everywhere.

        A range of None is the record's region.
        """
        if not self._noisy_columns(formula):
            found = self._carried(formula)
            return found, found
        parts = independent_parts(formula)
        if isinstance(formula, Junction) and len(parts) > 1:
            join = np.logical_and if formula.every else np.logical_or
            extents = [self._extent(part, noise_range) for part in parts]
            # The range is a box and the parts share no column, so a box is within "A or B" only if
            # it is within one of them.
            return (
                np.asarray(join.reduce([possible for possible, _ in extents])),
                np.asarray(join.reduce([certain for _, certain in extents])),
            )

        def within(name: str, classes: CodeClasses, part: slice) -> Floats:
            if name not in noise_range:
                return self._carried_classes(name, classes, part)
            steps = noise_range[name]
            return self._classes_within(
                name, classes, steps if steps is None else steps[part], part
            )

        possible = self._tabulate(formula, within) > 0
        return possible, self._tabulate(formula, within, matching=False) == 0

    def _classes_within(
        self, name: str, classes: CodeClasses, noise_range: Integers | None, part: slice
    ) -> Floats:
        """Mark the classes of a column that have a value within the range of each record."""
        column = self._numeric(name)
        n = column.n_values
        if noise_range is None:
            first, last = (ends[part] for ends in self._ends[name])
        else:
            # A point outside an open column is replaced by the nearest value, which is no farther
            # from the true one.
            place = nearest_codes(column, self._z[name][part])
            first, last = place - np.minimum(noise_range, n), place + np.minimum(noise_range, n)
        marks = np.zeros((len(first), classes.n_classes), np.bool_)
        ends = np.append(classes.starts[1:], n)
        for turn in (-n, 0, n) if self._wrap else (0,):
            for label, start, end in zip(classes.labels, classes.starts, ends, strict=True):
                marks[:, label] |= (last + turn >= start) & (first + turn < end)
        return marks.astype(np.float64)

    def _noisy_columns(self, formula: Formula) -> list[str]:
        return [name for name in formula.columns if name in self._noisy]

    def probabilities(self, formula: Formula, rule: Rule) -> Floats:
        """Return the weight of each record: its probability to match, or whether its point does.

        ``points`` counts the published points. ``spread`` is equation (21) of the paper, or (19)
        for wrapped ends, where the two agree.
        """
        if not self._noisy_columns(formula):
            return self._carried(formula).astype(np.float64)
        parts = independent_parts(formula)
        if isinstance(formula, Junction) and len(parts) > 1:
            result = self.probabilities(parts[0], rule)
            for part in parts[1:]:
                weights = self.probabilities(part, rule)
                result = result * weights if formula.every else result + weights * (1 - result)
            return result
        return self._tabulate(
            formula, lambda name, classes, part: self._class_mass(name, classes, rule, part)
        )

    def _carried(self, formula: Formula) -> Bools:
        """Return which records match a formula that uses only carried columns."""
        found = evaluate(formula, {name: self._codes[name] for name in formula.columns})
        return np.broadcast_to(found, self._n).astype(np.bool_)

    def _tabulate(self, formula: Formula, mass_of: MassOf, *, matching: bool = True) -> Floats:
        """Sum over the matching (or not matching) combinations of classes of linked columns."""
        classes = {name: self._class_of(formula, name) for name in formula.columns}
        n_cells = math.prod(kind.n_classes for kind in classes.values())
        if n_cells > _MAX_TABLE:
            raise TooLarge(
                f"the clause links {n_cells:,} combinations of "
                f"{', '.join(formula.columns)}; the limit is {_MAX_TABLE:,}. Compare columns "
                "with constants."
            )
        grids = np.meshgrid(*(kind.representatives for kind in classes.values()), indexing="ij")
        found = evaluate(formula, dict(zip(formula.columns, grids, strict=True)))
        table = np.broadcast_to(found == matching, grids[0].shape).astype(np.float64)
        out = np.empty(self._n)
        rows = max(1, _CHUNK // max(n_cells, 1))
        for begin in range(0, self._n, rows):
            part = slice(begin, min(begin + rows, self._n))
            left = np.broadcast_to(table, (part.stop - begin, *table.shape))
            for name in formula.columns:
                mass = mass_of(name, classes[name], part)
                left = np.einsum("ij...,ij->i...", left, mass)
            out[part] = left
        return out

    def _class_of(self, formula: Formula, name: str) -> CodeClasses:
        column = self._published.attributes[name]
        return classify(formula, name, column.size, column.n_values)

    def _class_mass(self, name: str, classes: CodeClasses, rule: Rule, part: slice) -> Floats:
        """Return the probability of each class of a column's values, per record."""
        if name not in self._noisy:
            return self._carried_classes(name, classes, part)
        n = part.stop - part.start
        mass = np.zeros((n, classes.n_classes))
        column = self._numeric(name)
        low, step = float(column.exact_low), float(column.exact_step)
        z, width = self._z[name][part], self._width[name][part]
        if rule == "points":
            codes = nearest_codes(column, z)
            inside = np.abs(low + codes * step - z) <= step / 2
            mass[np.arange(n), classes.of(codes)] = inside
            return mass
        ends = np.append(classes.starts[1:], column.n_values)
        if self._in_regions:
            first, last = (codes[part] for codes in self._ends[name])
            for label, start, end in zip(classes.labels, classes.starts, ends, strict=True):
                inside = np.minimum(last + 1, end) - np.maximum(first, start)
                mass[:, label] += np.maximum(inside, 0) / (last + 1 - first)
            return mass
        domain = (low - step / 2, low + (column.n_values - 0.5) * step)
        for label, start, end in zip(classes.labels, classes.starts, ends, strict=True):
            mass[:, label] += interval_probability(
                z, width, low + (start - 0.5) * step, low + (end - 0.5) * step,
                model=self._model, domain=domain, wrap=self._wrap,
            )  # fmt: skip
        return mass

    def _carried_classes(self, name: str, classes: CodeClasses, part: slice) -> Floats:
        """Mark the class of each record's carried value."""
        return np.eye(classes.n_classes)[classes.of(self._codes[name][part])]

    def frame(self) -> pa.Table:
        """Return the published records, with ``_std`` columns and, for regions, their ends."""
        return self.table


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(as_numpy(table.column(name), null=np.nan), np.float64)
