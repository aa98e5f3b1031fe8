"""Estimator of published cells: noisy counts of (generalized) tuples, some suppressed.

Answers have three sources of error:

- Noise on published counts, whose distribution is known exactly.
- Suppressed rows. Their number follows from the total if that is known, and a single suppressed
  cell cannot contain many. A model that is validated on the release
  (`hushtable.methods.counts.hidden_rows`) estimates where they are, within certain bounds.
- Cells that a condition splits; rows are assumed to be spread evenly inside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.errors import Refused
from hushtable.methods.counts.cell_table import COUNT, NOISY_COUNT
from hushtable.methods.counts.hidden_rows import HiddenRows, hidden_rows
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.numeric import CONFIDENCE, NORMAL
from hushtable.privacy.mechanisms.single_counts import CountMechanism, TwoSidedGeometric
from hushtable.query.answers.association_loss import after_cuts
from hushtable.query.answers.cell_sums import PublishedCells
from hushtable.query.answers.drawing import Generator
from hushtable.query.answers.error_law import ErrorLaw
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.resampling import redrawn_cells
from hushtable.query.answers.row_sums import RowFunction
from hushtable.query.answers.sums import SumEstimates
from hushtable.query.answers.uneven import cut_error
from hushtable.query.where import Predicate, parse
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy, repeated
from hushtable.schema.recoding import recoded_domain

MAX_ENUMERATED = 2_000_000  # largest domain whose cells are enumerated
MAX_SPREAD = 100_000  # largest domain for the model of suppressed rows

_SURELY_PUBLISHED = 1 - 1e-6

ANYWHERE = 0.25
"""Share of suppressed rows that are assumed to be uniform over all combinations.

The others are assumed to resemble the rows of the smallest published cells. So values that no
published cell has are possible, too.
"""

LIKENESS = 1.0
"""Precision of that assumption, in units of one randomly drawn suppressed row.

Deviations have the same direction for all suppressed rows, so precision does not grow with their
number.
"""

CUT_NOTE = (
    "The condition splits generalized cells; rows are assumed to be spread evenly inside them."
)
LIKE_SMALL_NOTE = (
    "Combinations of few rows are not published; their rows are assumed to resemble those of the "
    "smallest published combinations."
)
SPREAD_NOTE = (
    "Combinations of few rows are not published. A model with independent columns estimates "
    "where their rows are; its error is estimated by hiding more of the published "
    "combinations."
)

_FEW_HIDDEN = 0.02  # share of rows whose absence from sampled rows hardly matters


@dataclass(frozen=True)
class NumberInterval:
    """An estimate with an interval and standard deviations."""

    value: float
    low: float
    high: float
    privacy_std: float = 0.0
    model_std: float = 0.0


@dataclass(frozen=True)
class SuppressedShare:
    """Number of unpublished cells that a condition touches, and the share that satisfies it."""

    n_inside: int
    n_outside: int
    share: float


class CellEstimator(Estimator):
    """Answer counts from a release of cells."""

    total_is_published: ClassVar[str] = "a release with row_count_share"
    """Kind of release that would contain the number of rows, for messages to the analyst."""

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        plan = NoisyCounts(**self.parameters).plan(self.schema)
        self.recode = plan.recode
        self.domain = recoded_domain(self.schema, list(self.schema.attributes), self.recode)
        self.suppresses = not isinstance(plan.mechanism, TwoSidedGeometric)
        self.noise = noise_of_one(plan.mechanism)
        self.suppressed = chances_suppressed(plan.mechanism) if self.suppresses else np.ones(1)
        self.total = row_total(self.schema, self.settings)

    @property
    def most_suppressed(self) -> int:
        """Maximum number of rows of a suppressed cell; larger cells are published almost surely."""
        return len(self.suppressed) - 1

    # --- the published cells ----------------------------------------------------------------

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Published counts minus the known bias of their noise."""
        raw = NOISY_COUNT if NOISY_COUNT in self.table.column_names else COUNT
        published: NDArray[np.float64] = as_numpy(self.table.column(raw)).astype(np.float64)
        return published - self.noise.mean

    def frame(self) -> pa.Table:
        """Repeat each published tuple according to its count."""
        repeats = repeated(self.table.column(COUNT).to_numpy())
        return self.table.select(list(self.domain.names)).take(pa.array(repeats))

    @property
    def n_rows(self) -> int:
        """Number of rows of `frame`."""
        return int(as_numpy(self.table.column(COUNT)).sum())

    def association_kept(self) -> dict[tuple[str, str], float]:
        """Return the association left after sampling values from inside generalized cells."""
        return after_cuts(self.schema, self.recode, self.codes, self.counts)

    def redrawn(self, rng: Generator) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float64]]:
        """Sample counts of cells from their uncertainty, and positions of rows inside cells."""
        self._require_few_hidden()
        cells = PublishedCells(self.schema, self.recode, self.codes)
        codes = redrawn_cells(cells, self.counts, self.noise.variance, rng)
        return codes, np.ones(len(next(iter(codes.values()))))

    def _require_few_hidden(self) -> None:
        """Refuse to sample rows if many are suppressed, because no sample would contain them."""
        if not self.suppresses or self._n_hidden == 0:
            return
        total = self._some_total
        seen = float(self.counts.sum())
        if total is not None and total.high - seen <= _FEW_HIDDEN * total.value:
            return
        many = "an unknown number of" if total is None else f"up to {total.high - seen:,.0f}"
        raise Refused(
            f"combinations of few rows are not published, with {many} rows in them; sampled rows "
            "would lack them. Use mean(), regression() and other answers, "
            "which allow for them, or frame() for the published combinations only."
        )

    # --- sums -------------------------------------------------------------------------------

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows; suppressed rows are modeled, see `hidden_rows`."""
        cells = PublishedCells(self.schema, self.recode, self.codes)
        inside = np.stack([cells.means(function) for function in functions])
        model = cells.inside(functions, self.counts, together=together)
        notes = [CUT_NOTE] if model.any() else []
        if self._n_hidden == 0:
            privacy = self.noise.variance * _products(inside, together=together)
            return SumEstimates(inside @ self.counts, privacy, model, notes=tuple(notes))
        total = self._some_total
        if total is None:
            raise Refused(
                "combinations of few rows are not published, and their number of rows is "
                f"unknown; {self.total_is_published} would publish it. Ask for counts, or use "
                "frame() for the published combinations only."
            )
        means, unlike, note = self._suppressed(cells, functions, inside)
        rest = inside - means[:, None]
        privacy = self.noise.variance * _products(rest, together=together)
        of_total = _products(means[:, None], together=together)
        privacy += total.privacy_std**2 * of_total
        model = model + total.model_std**2 * of_total
        unlike = unlike if together else np.diag(unlike.diagonal())
        return SumEstimates(
            values=rest @ self.counts + means * total.value,
            privacy=privacy,
            model=model + unlike,
            notes=(*notes, note),
        )

    @property
    def _n_hidden(self) -> int:
        """Number of unpublished combinations."""
        return self.domain.size - len(self.counts) if self.suppresses else 0

    @cached_property
    def _some_total(self) -> NumberInterval | None:
        """Number of rows; if unknown, bounds from suppressed cells, or None if these are wide."""
        if self.total is not None:
            return self.total
        seen = float(self.counts.sum())
        most = float(self._n_hidden * self.most_suppressed)
        if most > seen / 4:
            return None
        return NumberInterval(seen + most / 2, seen, seen + most, model_std=most / 12**0.5)

    def _n_suppressed(self) -> float:
        """Estimate the number of suppressed rows, at least one standard deviation of it."""
        total = self._some_total
        assert total is not None  # noqa: S101 - asked for only where it is known
        n_cells = len(self.counts)
        spread = np.hypot(total.privacy_std, (n_cells * self.noise.variance) ** 0.5)
        return max(total.value - float(self.counts.sum()), float(spread), 1.0)

    def _unlike(self) -> float:
        """Return the variance of a sum over suppressed rows, for a function of variance 1.

        All deviate from the assumption in the same direction, and rows come in cells of several.
        """
        n_rows = self._n_suppressed()
        return n_rows**2 / LIKENESS + n_rows * self.most_suppressed / 2

    def _small(self) -> NDArray[np.float64]:
        """Return weights of the smallest published cells with as many rows as are suppressed."""
        there = np.maximum(self.counts, 0.0)
        order = np.argsort(there, kind="stable")
        needed = max(self._n_suppressed(), 0.05 * float(there.sum()))
        until = int(np.searchsorted(np.cumsum(there[order]), needed))
        weights = np.zeros(len(there))
        weights[order[: until + 1]] = there[order[: until + 1]]
        return np.asarray(weights / max(1.0, float(weights.sum())))

    def _suppressed(
        self, cells: PublishedCells, functions: Sequence[RowFunction], inside: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        """Return means over suppressed rows, the covariance of sums over them, and a note."""
        rows = self.hidden_rows
        if rows is not None:
            everywhere = replace(cells, codes=self._all_codes)
            values = np.stack([everywhere.means(function) for function in functions])
            return rows.means(values), rows.covariance(values), SPREAD_NOTE
        small, n = self._small(), len(functions)
        anywhere = np.array([cells.everywhere(function) for function in functions])
        means = (1 - ANYWHERE) * (inside @ small) + ANYWHERE * anywhere
        squares = (1 - ANYWHERE) * (inside * small) @ inside.T
        for i in range(n):
            for j in range(i, n):
                found = ANYWHERE * cells.everywhere(functions[i] * functions[j])
                squares[i, j] += found
                squares[j, i] += found if i != j else 0.0
        return means, self._unlike() * (squares - np.outer(means, means)), LIKE_SMALL_NOTE

    @cached_property
    def _all_codes(self) -> dict[str, NDArray[np.int64]]:
        """Codes of all cells of the domain."""
        grid = self.domain.grid()
        return {name: grid[:, i] for i, name in enumerate(self.domain.names)}

    @cached_property
    def hidden_rows(self) -> HiddenRows | None:
        """Model of the positions of suppressed rows; None if their number is unknown."""
        fits = self.domain.size <= MAX_SPREAD and len(self.counts) > 0
        if self.total is None or self._n_hidden == 0 or not fits:
            return None
        shape = self.domain.shape
        places = np.ravel_multi_index(tuple(self.codes[n] for n in self.domain.names), shape)
        counts, hidden = np.zeros(self.domain.size), np.ones(self.domain.size, np.bool_)
        counts[places], hidden[places] = self.counts, False
        return hidden_rows(
            counts.reshape(shape), hidden.reshape(shape), self._n_suppressed(), self.suppressed
        )

    # --- answers ----------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        return self.answer(parse(where, self.schema))

    def answer(self, predicate: Predicate) -> Estimate:
        """Estimate how many rows satisfy a parsed condition."""
        shares = predicate.shares(self.recode, self.codes)
        hidden = self._hidden(predicate, shares)
        inside, outside = self._published(shares), self._published(1.0 - shares)
        notes = []
        if hidden.n_inside == 0:
            answer = inside
        elif self.total is not None and hidden.n_outside == 0:
            answer = _difference(self.total, outside)
        else:
            sure = self._with_suppressed(inside, outside, hidden)
            answer, note = self._likely(predicate, shares, sure)
            notes.append(note)
            if self.total is None:
                notes.append(
                    "The number of rows is unknown, so the upper end is high; "
                    f"{self.total_is_published} would publish it."
                )
        if inside.model_std > 0:
            notes.append(CUT_NOTE)
        return Estimate(
            value=float(np.clip(answer.value, answer.low, answer.high)),
            low=answer.low,
            high=answer.high,
            privacy_std=answer.privacy_std,
            model_std=answer.model_std,
            notes=tuple(notes),
        )

    def _with_suppressed(
        self, inside: NumberInterval, outside: NumberInterval, hidden: SuppressedShare
    ) -> NumberInterval:
        """Widen the interval for suppressed rows: from none to the maximum possible."""
        most = float(self.most_suppressed)
        value, low, high = inside.value, inside.low, inside.high + hidden.n_inside * most
        if self.total is not None:
            rest = _difference(self.total, outside)
            high = min(high, max(inside.high, rest.high))
            low = max(low, min(high, rest.low - hidden.n_outside * most))
            value += hidden.share * max(0.0, rest.value - inside.value)
        return NumberInterval(
            value=value,
            low=low,
            high=high,
            privacy_std=inside.privacy_std,
            # Only the range of the suppressed part is known.
            model_std=float(np.hypot(inside.model_std, (high - inside.high) / 12**0.5)),
        )

    def _likely(
        self, predicate: Predicate, shares: NDArray[np.float64], sure: NumberInterval
    ) -> tuple[NumberInterval, str]:
        """Narrow the certain interval to a likely one, by the model of suppressed rows."""
        rows, total = self.hidden_rows, self.total
        if rows is None or total is None:
            return sure, (
                "Unpublished combinations may contain such rows too; the interval ranges "
                "from none to the maximum possible."
            )
        everywhere = predicate.shares(self.recode, self._all_codes)
        part = float(rows.means(everywhere[None, :])[0])
        unlike = float(rows.covariance(everywhere[None, :])[0, 0])
        # Suppressed rows are the total minus published ones, so noise on published counts affects
        # them.
        noise = self.noise.variance * float((shares - part) @ (shares - part))
        hidden = everywhere[rows.hidden]
        cut, cut_hidden = (shares > 0) & (shares < 1), (hidden > 0) & (hidden < 1)
        error = cut_error(
            np.concatenate([shares[cut], hidden[cut_hidden]]),
            np.concatenate([self.counts[cut], rows.expected[rows.hidden][cut_hidden]]),
        )
        value = float(shares @ self.counts)
        value += part * max(0.0, total.value - float(self.counts.sum()))
        reach = (NORMAL**2 * (noise + unlike) + (part * (total.high - total.value)) ** 2) ** 0.5
        # An analyst may know of one cell that is full, or empty, and ask about it.
        reach = max(reach, float(self.most_suppressed))
        low, high = value - reach - error.below, value + reach + error.above
        return NumberInterval(
            value=value,
            low=float(np.clip(low, sure.low, sure.high)),
            high=float(np.clip(high, sure.low, sure.high)),
            privacy_std=float(np.hypot(noise**0.5, part * total.privacy_std)),
            model_std=float(np.hypot(error.std, unlike**0.5)),
        ), f"{SPREAD_NOTE} Without the model: {sure.low:,.0f} to {sure.high:,.0f}."

    def _published(self, shares: NDArray[np.float64]) -> NumberInterval:
        """Sum published cells, each weighted by the share that satisfies the condition."""
        whole, cut = shares == 1.0, (shares > 0.0) & (shares < 1.0)
        n_whole = int(np.count_nonzero(whole))
        value = float(self.counts[whole].sum())
        least, most = self.noise.quantiles(n_whole, CONFIDENCE)
        center = value + n_whole * self.noise.mean
        low, high = center - most, center - least
        variance = n_whole * self.noise.variance
        model_std = 0.0
        if cut.any():
            part, counts = shares[cut], self.counts[cut]
            error = cut_error(part, counts)
            model_std = error.std
            at_most = variance + float(error.most @ error.most) * self.noise.variance
            variance += float(part @ part) * self.noise.variance
            value += float(part @ counts)
            # At the lower end only whole cells count; at the upper end, split cells count in full.
            high = value + float(NORMAL * np.sqrt(at_most)) + error.above
        return NumberInterval(
            value=max(value, 0.0),
            low=max(low, 0.0),
            high=max(high, 0.0),
            privacy_std=float(np.sqrt(variance)),
            model_std=model_std,
        )

    def _hidden(self, predicate: Predicate, shares: NDArray[np.float64]) -> SuppressedShare:
        """Count the unpublished cells that may, and may not, satisfy a condition."""
        n_hidden = self.domain.size - len(shares)
        if not self.suppresses or n_hidden == 0:
            return SuppressedShare(n_inside=0, n_outside=0, share=0.0)
        if self.domain.size <= MAX_ENUMERATED:
            everywhere = predicate.shares(self.recode, self._all_codes)
            return SuppressedShare(
                n_inside=int(np.count_nonzero(everywhere > 0) - np.count_nonzero(shares > 0)),
                n_outside=int(np.count_nonzero(everywhere < 1) - np.count_nonzero(shares < 1)),
                share=float(everywhere.sum() - shares.sum()) / n_hidden,
            )
        # Every cell that a condition touches has at least one combination that satisfies it. In a
        # domain this large most cells are empty, so suppressed rows are assumed to resemble
        # published ones.
        satisfying = predicate.count()
        return SuppressedShare(
            n_inside=min(n_hidden, satisfying),
            n_outside=min(n_hidden, self.schema.domain.size - satisfying),
            share=float(shares @ self.counts / max(1.0, self.counts.sum())),
        )


def _products(weights: NDArray[np.float64], *, together: bool) -> NDArray[np.float64]:
    """Return the inner products of all pairs of rows, or only of each row with itself."""
    if together:
        return np.asarray(weights @ weights.T)
    return np.diag(np.sum(weights**2, axis=1))


def _difference(total: NumberInterval, part: NumberInterval) -> NumberInterval:
    """Return the total minus a part."""
    value = total.value - part.value
    below = float(np.hypot(total.value - total.low, part.high - part.value))
    above = float(np.hypot(total.high - total.value, part.value - part.low))
    return NumberInterval(
        value=max(0.0, value),
        low=max(0.0, value - below),
        high=max(0.0, value) + above,
        privacy_std=float(np.hypot(total.privacy_std, part.privacy_std)),
        model_std=part.model_std,
    )


def noise_of_one(mechanism: CountMechanism) -> ErrorLaw:
    """Return the noise of one published count, for a count far above the threshold."""
    far = mechanism.release_count(1 - 1e-15) + mechanism.release_count(_SURELY_PUBLISHED)
    published, chances = mechanism.outcomes(far)
    return ErrorLaw(published - far, chances)


def chances_suppressed(mechanism: CountMechanism) -> NDArray[np.float64]:
    """Return the probability that a cell of 0, 1, 2, ... rows is suppressed, where above 10^-6."""
    n = mechanism.release_count(_SURELY_PUBLISHED)
    return np.array([1.0 - mechanism.release_probability(rows) for rows in range(n)])


def row_total(schema: Schema, settings: Mapping[str, Any]) -> NumberInterval | None:
    """Return the number of rows: public, noisy, or None if unknown."""
    public = schema.counted_rows
    if public is not None:
        return NumberInterval(value=public, low=public, high=public)
    published = settings["row_total"]
    return None if published is None else noisy_total(published)


def noisy_total(published: Mapping[str, Any]) -> NumberInterval:
    """Return a total that was published with discrete Laplace noise."""
    value, scale = float(published["value"]), float(Fraction(published["scale"]))
    # For the discrete Laplace distribution, P[|noise| >= t] <= exp(-(t - 1) / scale).
    half = 1 - scale * float(np.log(1 - CONFIDENCE))
    return NumberInterval(
        value=value, low=value - half, high=value + half, privacy_std=scale * 2**0.5
    )
