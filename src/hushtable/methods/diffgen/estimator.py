"""Estimator of generalized groups with noisy counts.

Answers have two separate sources of error:

- the noise that was added for privacy, whose distribution is known exactly;
- the assumption that rows are spread evenly inside a group that a condition splits.

In a domain too large to list, groups with a low noisy count are left out. Each of them is assigned
the mean count of an empty group that is left out, so that sums over empty groups are unbiased. Rows
in such groups are not seen; the total, if published, shows their number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.errors import Refused, ReleaseError
from hushtable.methods.diffgen.generalized_table import read_cut
from hushtable.numeric import CONFIDENCE, NORMAL
from hushtable.privacy.noise.distributions import laplace_mass
from hushtable.privacy.rational import as_rational
from hushtable.query.answers.cell_sums import (
    COUNT,
    NOISY_COUNT,
    CellsEstimator,
    ErrorLaw,
    cut_error,
)
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.published import Generator, draw_inside, fresh
from hushtable.query.answers.resampling import redrawn_cells
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, products
from hushtable.query.where import Predicate, parse
from hushtable.schema.codes import as_numpy, to_labels

CUT_NOTE = (
    "The condition splits generalized groups; rows are assumed to be spread evenly inside them."
)

_FAR = 40.0  # noise exceeds 40 scales with probability e**-40
_LEAST_RATE = 1e-6  # the table of the noise has 80 / rate entries


class GeneralizedEstimator(CellsEstimator):
    """Estimator of counts and sums from generalized groups; also maps other rows to the cuts."""

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        settings = self.settings
        self.recode = {name: read_cut(cut) for name, cut in settings["columns"].items()}
        for name, recoding in self.recode.items():
            column = self.schema.attributes[name]
            # A cut that was never split has one code for all, special values and missing included.
            if recoding.n_values not in (column.n_values, column.size):
                raise ReleaseError(f"{name}: its cuts do not match the schema; get a fresh copy.")
        self.n_groups = int(settings["n_groups"])
        self.threshold: int | None = settings["threshold"]
        rate = settings["rate"]
        self.rate = None if rate is None else float(as_rational(rate, name="rate"))

    @cached_property
    def total(self) -> Estimate | None:
        """Number of rows: public, the sum of noisy class sizes, or None if it is not published."""
        published, scale = self.settings["row_total"], self.settings["class_sizes_scale"]
        if published is None or self.schema.counted_rows is not None or scale is None:
            return None if published is None else Estimate.exact(published)
        n_classes = self.schema.attributes[self.settings["target"]].size
        one = _laplace(float(1 / as_rational(scale, name="class_sizes_scale")))
        least, most = one.quantiles(n_classes, CONFIDENCE)
        std = math.sqrt(n_classes * one.variance)
        return Estimate(
            value=published,
            low=published - most,
            high=published - least,
            privacy_std=std,
            model_std=0.0,
        )

    @cached_property
    def counts(self) -> Floats:  # type: ignore[override]  # computed on demand
        """Raw counts of the published groups."""
        name = COUNT if self.rate is None else NOISY_COUNT
        raw: Floats = as_numpy(self.table.column(name)).astype(np.float64)
        return raw

    @cached_property
    def noise(self) -> ErrorLaw:
        """Noise of one count; exact counts have none."""
        return ErrorLaw(np.zeros(1, np.int64), np.ones(1)) if not self.rate else _laplace(self.rate)

    def drawn_frame(self) -> pa.Table:
        """Sample a value uniformly from inside every generalized value, independently."""
        repeats, rng = self._repeated(), fresh()
        columns = {}
        for name, column in self.schema.attributes.items():
            codes = self.codes[name][repeats]
            if name in self.recode:
                codes = draw_inside(self.recode[name], codes, rng)
            columns[name] = to_labels(column, codes)
        return pa.table(columns)

    def generalize(self, codes: Mapping[str, Integers]) -> pa.Table:
        """Generalize rows of some of the schema's columns to the values of the cuts."""
        return pa.table(
            {
                name: to_labels(
                    self.schema.attributes[name],
                    self.recode[name].apply(own) if name in self.recode else own,
                    self.recode.get(name),
                )
                for name, own in codes.items()
            }
        )

    def redrawn(self, rng: Generator) -> tuple[dict[str, Integers], Floats]:
        """Sample counts of cells from their uncertainty, and positions of rows inside cells."""
        return redrawn_cells(self.cells, self.counts, self.noise.variance, rng)

    # --- sums -------------------------------------------------------------------------------------

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows.

        The published number of rows, if there is one, reduces the noise that all functions share,
        weighted by its precision relative to the groups. Rows in unlisted groups are assumed to
        resemble those of listed ones.
        """
        cells, total, hidden = self.cells, self.total, self.threshold is not None
        inside = np.stack([cells.means(function) for function in functions])
        model = cells.inside(functions, self.counts, together=together)
        notes = [CUT_NOTE] if model.any() else []
        if total is None:
            if hidden:
                raise Refused(
                    f"groups with a noisy count below {self.threshold} are not listed, and the "
                    "number of rows is not published; ask for counts, or use frame() "
                    "for the rows of listed groups only."
                )
            privacy = self.noise.variance * products(inside, together=together)
            return SumEstimates(inside @ self.counts, privacy, model, notes=tuple(notes))
        there = np.maximum(self.counts, 0.0)
        shares = there / max(1.0, float(there.sum()))
        of_total = inside @ shares if hidden else self._worth_of_total * inside.mean(axis=1)
        weights = inside - of_total[:, None]
        privacy = self.noise.variance * products(weights, together=together)
        privacy += total.privacy_std**2 * products(of_total[:, None], together=together)
        if hidden:
            n_hidden = max(0.0, total.value - float(self.counts.sum()))
            # Their mean is assumed to be as precise as one randomly drawn row.
            model = model + n_hidden**2 * products(weights * np.sqrt(shares), together=together)
            notes.append("Rows in groups that are not listed are assumed to resemble the others.")
        values = weights @ self.counts + of_total * total.value
        return SumEstimates(values, privacy, model, notes=tuple(notes))

    @property
    def _worth_of_total(self) -> float:
        """Weight of the number of rows against the sum of all groups, by variance."""
        of_groups = len(self.counts) * self.noise.variance
        of_total = self.total.privacy_std**2 if self.total else 0.0
        return of_groups / (of_groups + of_total) if of_groups else 0.0

    # --- answers ----------------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        predicate = parse(where, self.schema)
        shares = predicate.shares(self.recode, self.codes)
        inside = self._sum(shares, self._all_shares(predicate, shares))
        rest = 1.0 - shares
        outside = self._sum(rest, self.n_groups - self._all_shares(predicate, shares))
        answer, notes = inside, list[str]()
        if self.total is not None and self.threshold is None:
            from_total = self.total.complement(outside)
            if from_total.privacy_std < inside.privacy_std:
                answer = from_total
        if inside.model_std > 0:
            notes.append(CUT_NOTE)
        if self.threshold is not None and inside.high > 0:
            answer, more = self._with_hidden(answer, shares)
            notes += more
        high = answer.high
        if inside.model_std > 0 and self.total is not None:
            # The upper end cannot exceed all rows. If no group is split, the noise of the groups
            # gives a more precise end.
            high = max(answer.low, min(high, self.total.high))
        value = min(max(answer.value, answer.low), high)
        return replace(answer, value=value, high=high, notes=tuple(notes))

    def _all_shares(self, predicate: Predicate, shares: Floats) -> float:
        """Sum the shares of all groups, listed or not."""
        if self.threshold is None:
            return float(shares.sum())
        density, n_others = {}, self.n_groups
        for name in predicate.columns:
            column = self.schema.attributes[name]
            recoding = self.recode.get(name)
            width = np.ones(column.size, np.int64)
            if recoding is not None:
                width = recoding.widths[recoding.apply(np.arange(column.size))]
            density[name] = 1.0 / width
            n_others //= column.size if recoding is None else recoding.size
        return predicate.weigh(density) * n_others

    def _sum(self, shares: Floats, all_shares: float) -> Estimate:
        """Sum groups, each weighted by the share that satisfies the condition; at least 0."""
        whole, cut = shares == 1.0, (shares > 0.0) & (shares < 1.0)
        n_whole = int(np.count_nonzero(whole))
        value = float(shares @ self.counts)
        variance = float(shares @ shares) * self.noise.variance
        error = cut_error(shares[cut], self.counts[cut])
        at_least = n_whole * self.noise.variance
        at_most = at_least + float(error.most @ error.most) * self.noise.variance
        if self.threshold is not None:
            mean, spread = self._left_out
            n_hidden = max(0.0, all_shares - float(shares.sum()))
            value += mean * n_hidden
            variance += spread * n_hidden
            at_least += spread * n_hidden
            at_most += spread * n_hidden
        if not cut.any() and self.threshold is None:
            least, most = self.noise.quantiles(n_whole, CONFIDENCE)
            low, high = value - most, value - least
        else:
            # At the ends, split groups count as empty or whole; noise is added at both ends.
            low = value - error.below - NORMAL * math.sqrt(at_least)
            high = value + error.above + NORMAL * math.sqrt(at_most)
        return Estimate(
            value=max(value, 0.0),
            low=max(low, 0.0),
            high=max(high, 0.0),
            privacy_std=math.sqrt(variance),
            model_std=error.std,
        )

    @cached_property
    def _left_out(self) -> tuple[float, float]:
        """Mean and variance of the noise of an empty group that is left out."""
        below = self.noise.values < (self.threshold or 0)
        chances = self.noise.probabilities[below] / self.noise.probabilities[below].sum()
        values = self.noise.values[below]
        mean = float(values @ chances)
        return mean, float((values - mean) ** 2 @ chances)

    def _with_hidden(self, answer: Estimate, shares: Floats) -> tuple[Estimate, list[str]]:
        """Allow for rows in groups that are not listed."""
        note = (
            f"Groups with a noisy count below {self.threshold} are not listed; the interval ranges "
            "from none to all of the rows in them."
        )
        if self.total is None:
            return answer, [
                f"Groups with a noisy count below {self.threshold} are not listed, and the number "
                "of rows is not published: the estimate does not include rows in such groups."
            ]
        listed = self._sum(np.ones(len(shares)), float(self.n_groups))
        spread = math.hypot(listed.privacy_std, self.total.privacy_std)
        hidden = self.total.value - listed.value
        most = max(0.0, hidden + NORMAL * spread)
        there = np.maximum(self.counts, 0.0)
        share = float(shares @ there) / max(1.0, float(there.sum()))
        return replace(
            answer,
            value=answer.value + share * max(0.0, hidden),
            high=answer.high + most,
            model_std=math.hypot(answer.model_std, most / math.sqrt(12)),
        ), [note]


def _laplace(rate: float) -> ErrorLaw:
    """Return the distribution of discrete Laplace noise of scale 1/rate."""
    if rate < _LEAST_RATE:
        raise ReleaseError(
            f"this release has noise of rate {rate:g}; at least {_LEAST_RATE:g} is valid."
        )
    reach = math.ceil(_FAR / rate) + 1
    values = np.arange(-reach, reach + 1)
    return ErrorLaw(values, laplace_mass(rate, values))
