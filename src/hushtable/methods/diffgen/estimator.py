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
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.errors import Refused
from hushtable.methods.diffgen.generalized_table import COUNT, NOISY_COUNT
from hushtable.numeric import CONFIDENCE, NORMAL
from hushtable.privacy.noise.distributions import laplace_mass
from hushtable.query.answers.association_loss import after_cuts
from hushtable.query.answers.cell_sums import ErrorLaw, PublishedCells, cut_error
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import Generator, draw_inside, fresh
from hushtable.query.answers.resampling import redrawn_cells
from hushtable.query.answers.row_sums import RowFunction, SumEstimates
from hushtable.query.where import Predicate, parse
from hushtable.schema.codes import as_numpy, repeated, to_labels
from hushtable.schema.recoding import Intervals, Recoding, ValueGroups

CUT_NOTE = (
    "The condition splits generalized groups; rows are assumed to be spread evenly inside them."
)

_FAR = 40.0  # noise exceeds 40 scales with probability e**-40


@dataclass(frozen=True)
class TotalError:
    """Noise of the number of rows: central interval and standard deviation."""

    low: float
    high: float
    std: float


class GeneralizedEstimator(Estimator):
    """Answer counts from generalized groups, and map other rows to the cuts."""

    quantiles_by_counts = True

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self.recode = {name: _recoding(cut) for name, cut in self.settings["columns"].items()}
        self.n_groups = int(self.settings["n_groups"])
        self.threshold: int | None = self.settings["threshold"]
        self.rate = (
            None if self.settings["rate"] is None else float(Fraction(self.settings["rate"]))
        )
        self.total: int | None = self.settings["row_total"]
        self.total_noise = self._noise_of_total(self.settings)

    def _noise_of_total(self, settings: Mapping[str, Any]) -> TotalError | None:
        """Return the noise of the number of rows; None if it is public."""
        scale = settings["class_sizes_scale"]
        if self.schema.counted_rows is not None or scale is None:
            return None
        n_classes = self.schema.attributes[settings["target"]].size
        one = _laplace(float(1 / Fraction(scale)))
        return TotalError(
            *one.quantiles(n_classes, CONFIDENCE), math.sqrt(n_classes * one.variance)
        )

    # --- the groups -------------------------------------------------------------------------------

    @cached_property
    def noisy(self) -> NDArray[np.float64]:
        """Raw counts of the published groups."""
        name = COUNT if self.rate is None else NOISY_COUNT
        raw: NDArray[np.float64] = as_numpy(self.table.column(name)).astype(np.float64)
        return raw

    @cached_property
    def noise(self) -> ErrorLaw:
        """Noise of one count; exact counts have none."""
        return ErrorLaw(np.zeros(1, np.int64), np.ones(1)) if not self.rate else _laplace(self.rate)

    # --- rows -------------------------------------------------------------------------------------

    def _repeated(self) -> NDArray[np.int64]:
        return repeated(self.table.column(COUNT).to_numpy())

    def frame(self) -> pa.Table:
        """Repeat each group according to its count."""
        rows = self.table.select(list(self.schema.attributes))
        return rows.take(pa.array(self._repeated()))

    @property
    def n_rows(self) -> int:
        """Number of rows of `frame`."""
        return int(as_numpy(self.table.column(COUNT)).sum())

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

    def generalize(self, codes: Mapping[str, NDArray[np.int64]]) -> pa.Table:
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

    def association_kept(self) -> dict[tuple[str, str], float]:
        """Return the association left after sampling values from inside generalized cells."""
        return after_cuts(self.schema, self.recode, self.codes, self.noisy)

    def redrawn(self, rng: Generator) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float64]]:
        """Sample counts of cells from their uncertainty, and positions of rows inside cells."""
        cells = PublishedCells(self.schema, self.recode, self.codes)
        codes = redrawn_cells(cells, self.noisy, self.noise.variance, rng)
        return codes, np.ones(len(next(iter(codes.values()))))

    # --- sums -------------------------------------------------------------------------------------

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows.

        The published number of rows, if there is one, reduces the noise that all functions share,
        weighted by its precision relative to the groups. Rows in unlisted groups are assumed to
        resemble those of listed ones.
        """
        cells = PublishedCells(self.schema, self.recode, self.codes)
        inside = np.stack([cells.means(function) for function in functions])
        model = cells.inside(functions, self.noisy, together=together)
        notes = [CUT_NOTE] if model.any() else []
        variance = self.noise.variance
        if self.total is None:
            if self.threshold is not None:
                raise Refused(
                    f"groups with a noisy count below {self.threshold} are not listed, and the "
                    "number of rows is not published; ask for counts, or use frame() "
                    "for the rows of listed groups only."
                )
            values, weights, of_total = inside @ self.noisy, inside, np.zeros((len(functions), 1))
        else:
            of_total = (
                self._worth_of_total * inside.mean(axis=1)
                if self.threshold is None
                else self._like(inside)
            )[:, None]
            weights = inside - of_total
            values = weights @ self.noisy + of_total[:, 0] * self.total
        total_std = self.total_noise.std if self.total_noise else 0.0
        privacy = variance * (weights @ weights.T) + total_std**2 * (of_total @ of_total.T)
        if self.threshold is not None and self.total is not None:
            there = np.maximum(self.noisy, 0.0)
            apart = weights * np.sqrt(there / max(1.0, float(there.sum())))
            hidden = max(0.0, self.total - float(self.noisy.sum()))
            model = model + hidden**2 * (apart @ apart.T)  # as precise as one randomly drawn row
            notes.append("Rows in groups that are not listed are assumed to resemble the others.")
        if not together:
            privacy, model = np.diag(privacy.diagonal()), np.diag(model.diagonal())
        return SumEstimates(values, privacy, model, notes=tuple(notes))

    @property
    def _worth_of_total(self) -> float:
        """Weight of the number of rows against the sum of all groups, by variance."""
        of_groups = len(self.noisy) * self.noise.variance
        of_total = self.total_noise.std**2 if self.total_noise else 0.0
        return of_groups / (of_groups + of_total) if of_groups else 0.0

    def _like(self, inside: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the means of functions over the rows of listed groups."""
        there = np.maximum(self.noisy, 0.0)
        means: NDArray[np.float64] = inside @ there / max(1.0, float(there.sum()))
        return means

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
            from_total = _complement(outside, float(self.total), self.total_noise)
            if from_total.privacy_std < inside.privacy_std:
                answer = from_total
        if inside.model_std > 0:
            notes.append(CUT_NOTE)
        if self.threshold is not None and inside.high > 0:
            answer, more = self._with_hidden(answer, shares)
            notes += more
        high = answer.high
        if inside.model_std > 0 and self.total is not None:
            # The upper end cannot exceed all rows. If no group is split, their own noise is more
            # precise.
            everybody = self.total - (self.total_noise.low if self.total_noise else 0.0)
            high = max(answer.low, min(high, everybody))
        return Estimate(
            value=min(max(answer.value, answer.low), high),
            low=answer.low,
            high=high,
            privacy_std=answer.privacy_std,
            model_std=answer.model_std,
            notes=tuple(notes),
        )

    def _all_shares(self, predicate: Predicate, shares: NDArray[np.float64]) -> float:
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

    def _sum(self, shares: NDArray[np.float64], all_shares: float) -> Estimate:
        """Sum groups, each weighted by the share that satisfies the condition; at least 0."""
        whole, cut = shares == 1.0, (shares > 0.0) & (shares < 1.0)
        n_whole = int(np.count_nonzero(whole))
        value = float(shares @ self.noisy)
        variance = float(shares @ shares) * self.noise.variance
        error = cut_error(shares[cut], self.noisy[cut])
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
            # At the ends, split groups count as empty or whole; noise is added to either end.
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
        """Return mean and variance of the noise of an empty group that is left out."""
        below = self.noise.values < (self.threshold or 0)
        chances = self.noise.probabilities[below] / self.noise.probabilities[below].sum()
        values = self.noise.values[below]
        mean = float(values @ chances)
        return mean, float((values - mean) ** 2 @ chances)

    def _with_hidden(
        self, answer: Estimate, shares: NDArray[np.float64]
    ) -> tuple[Estimate, list[str]]:
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
        spread = math.hypot(listed.privacy_std, self.total_noise.std if self.total_noise else 0.0)
        hidden = max(0.0, self.total - listed.value)
        most = max(0.0, self.total - listed.value + NORMAL * spread)
        share = float(shares @ np.maximum(self.noisy, 0.0)) / max(
            1.0, float(np.maximum(self.noisy, 0.0).sum())
        )
        return Estimate(
            value=answer.value + share * hidden,
            low=answer.low,
            high=answer.high + most,
            privacy_std=answer.privacy_std,
            model_std=math.hypot(answer.model_std, most / math.sqrt(12)),
        ), [note]


def _complement(part: Estimate, total: float, noise: TotalError | None) -> Estimate:
    """Return the number of rows minus a part."""
    noise = noise or TotalError(0.0, 0.0, 0.0)
    value = total - part.value
    # Independent noise adds in squares; with a model error, which may be at its end, half-widths
    # add.
    together = math.hypot if part.model_std == 0 else operator.add
    return Estimate(
        value=max(0.0, value),
        low=max(0.0, value - together(noise.high, part.high - part.value)),
        high=max(0.0, value) + together(-noise.low, part.value - part.low),
        privacy_std=math.hypot(part.privacy_std, noise.std),
        model_std=part.model_std,
    )


def _laplace(rate: float) -> ErrorLaw:
    """Return discrete Laplace noise of scale 1/rate as a table."""
    reach = math.ceil(_FAR / rate) + 1
    values = np.arange(-reach, reach + 1)
    return ErrorLaw(values, laplace_mass(rate, values))


def _recoding(cut: Mapping[str, Any]) -> Recoding:
    """Read a cut from plain data."""
    known = (tuple(cut["labels"]), int(cut["n_values"]), bool(cut["has_missing"]))
    if "starts" in cut:
        special = tuple(cut.get("special", ()))
        return Intervals(*known, tuple(cut["starts"]), special=special)
    return ValueGroups(*known, tuple(cut["groups"]))
