"""Count from published cells: noisy counts of (generalized) tuples, some of them suppressed.

Three things stand between the published cells and the truth, and each has its place in the answer:

- the noise on published counts, whose distribution is known exactly;
- suppressed rows: how many there are follows from the total where it is known, and a single
  suppressed cell cannot hold many;
- cells that a condition cuts through, where rows are taken to be spread evenly inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtri

from hushtable.estimate.base import CONFIDENCE, Estimate, Estimator
from hushtable.estimate.noise_sum import NoiseSum
from hushtable.predicate import Predicate, parse
from hushtable.privacy.count_mechanisms import (
    CountMechanism,
    TwoSidedGeometric,
    count_mechanism,
)
from hushtable.recoding import recoded_domain, recodings
from hushtable.schema import Schema

MAX_ENUMERATED = 2_000_000  # cells of the domain that are looked at one by one

_NORMAL = float(ndtri((1 + CONFIDENCE) / 2))
_SURELY_PUBLISHED = 1 - 1e-6
# What share of a cut cell satisfies a condition is not known; around the even share it is given
# the spread of a beta distribution with the weight of two observations.
_SHARE_VARIANCE = 1 / 3


@dataclass(frozen=True)
class _Range:
    """A number that is known up to an interval."""

    value: float
    low: float
    high: float
    privacy_std: float = 0.0
    model_std: float = 0.0


class CellEstimator(Estimator):
    """Answer counts from a release of cells."""

    def __init__(
        self,
        schema: Schema,
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        tables: Mapping[str, pa.Table],
    ) -> None:
        mechanism = _mechanism(settings["mechanism"])
        self.schema = schema
        self.recode = recodings(schema, parameters["generalize"])
        self.domain = recoded_domain(schema, list(schema.attributes), self.recode)
        self.table = tables["data"]
        self.suppresses = not isinstance(mechanism, TwoSidedGeometric)
        far = mechanism.release_count(1 - 1e-15) + mechanism.release_count(_SURELY_PUBLISHED)
        published, chances = mechanism.outcomes(far)
        self.noise = NoiseSum(published - far, chances)
        # A cell with more rows than this would have been published.
        self.most_suppressed = (
            mechanism.release_count(_SURELY_PUBLISHED) - 1 if self.suppresses else 0
        )
        self.total = _row_total(settings["rows"])

    # --- the published cells ----------------------------------------------------------------

    @cached_property
    def codes(self) -> dict[str, NDArray[np.int64]]:
        """The published cells as codes of the recoded domain."""
        return {name: self._encode(name) for name in self.domain.names}

    def _encode(self, name: str) -> NDArray[np.int64]:
        recoding, column = self.recode.get(name), self.schema.attributes[name]
        values = self.table.column(name).combine_chunks().dictionary_encode()
        labels = values.dictionary.to_pylist()
        if recoding is not None:
            code_of = {label: code for code, label in enumerate(recoding.labels)}
            missing = recoding.missing_code
        elif column.type == "categorical":
            code_of = {label: code for code, label in enumerate(column.values)}
            missing = column.missing_code
        else:
            low, step = column.exact_low, column.exact_step
            code_of = {v: int((Fraction(str(v)) - low) / step) for v in labels}
            missing = column.missing_code
        known = np.array([code_of[label] for label in labels] + [missing or 0], np.int64)
        return known[values.indices.fill_null(len(labels)).to_numpy(zero_copy_only=False)]

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Published counts with the known bias of their noise taken off."""
        raw = "noisy_count" if "noisy_count" in self.table.column_names else "count"
        return self.table.column(raw).to_numpy().astype(np.float64) - self.noise.mean

    def frame(self) -> pa.Table:
        """Repeat each published tuple as often as its count says."""
        repeats = np.repeat(np.arange(self.table.num_rows), self.table.column("count").to_numpy())
        return self.table.select(list(self.domain.names)).take(pa.array(repeats))

    # --- answers ----------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        predicate = parse(where, self.schema)
        shares = predicate.shares(self.recode, self.codes)
        hidden, hidden_outside = self._hidden_rows(predicate, shares)
        inside, outside = self._published(shares), self._published(1.0 - shares)
        # Bounds from the cells that satisfy the condition, and from those that do not: the second
        # pair is better where many suppressed cells might satisfy it, and the total is known.
        low, high = inside.low, inside.high + hidden
        value, privacy_std = inside.value, inside.privacy_std
        if self.total is not None and hidden > 0:
            suppressed = max(0.0, self.total.value - inside.value - outside.value)
            everything = inside.value + outside.value
            value += suppressed * (inside.value / everything if everything > 0 else 0.5)
            spread = float(np.hypot(self.total.high - self.total.value, outside.value - outside.low))
            high = min(high, max(inside.high, self.total.value - outside.value + spread))
            if hidden_outside == 0:
                value = self.total.value - outside.value
                privacy_std = float(np.hypot(self.total.privacy_std, outside.privacy_std))
                low = max(0.0, value - spread)
        notes = []
        slack = max(0.0, high - inside.high)
        if hidden > 0:
            notes.append(
                "Combinations that are not published may hold such rows too; the interval allows "
                "for none of them up to all that may be there."
            )
            if self.total is None:
                notes.append(
                    "The number of rows is not known, so the upper end is far away; a release with "
                    "row_count_share would tell it."
                )
        if inside.model_std > 0:
            notes.append(
                "The condition cuts through generalized cells; rows are taken as spread evenly "
                "inside them."
            )
        return Estimate(
            value=float(np.clip(value, low, high)),
            low=low,
            high=high,
            privacy_std=privacy_std,
            model_std=float(np.hypot(inside.model_std, slack / 12**0.5)),
            notes=tuple(notes),
        )

    def _published(self, shares: NDArray[np.float64]) -> _Range:
        """Add up published cells, each by the share of it that counts."""
        whole, cut = shares == 1.0, (shares > 0.0) & (shares < 1.0)
        n_whole = int(np.count_nonzero(whole))
        value = float(self.counts[whole].sum())
        least, most = self.noise.quantiles(n_whole, CONFIDENCE)
        center = value + n_whole * self.noise.mean
        low, high = center - most, center - least
        variance = n_whole * self.noise.variance
        model_std = 0.0
        if cut.any():
            part, counts = shares[cut], np.maximum(self.counts[cut], 0.0)
            variance += float(part @ part) * self.noise.variance
            # Cells cut by the same condition err together, so their spreads add up.
            model_std = float(counts @ np.sqrt(part * (1 - part) * _SHARE_VARIANCE))
            value += float(part @ self.counts[cut])
            half = _NORMAL * float(np.sqrt(variance + model_std**2))
            low = max(low, value - half)
            high = min(high + float(counts.sum()) + half, value + half)
        return _Range(
            value=max(value, 0.0),
            low=max(low, 0.0),
            high=max(high, 0.0),
            privacy_std=float(np.sqrt(variance)),
            model_std=model_std,
        )

    def _hidden_rows(
        self, predicate: Predicate, shares: NDArray[np.float64]
    ) -> tuple[float, float]:
        """Bound how many rows in unpublished cells may, and may not, satisfy a condition."""
        if not self.suppresses:
            return 0.0, 0.0
        n_hidden = self.domain.size - len(shares)
        if self.domain.size <= MAX_ENUMERATED:
            grid = self.domain.grid()
            codes = {name: grid[:, i] for i, name in enumerate(self.domain.names)}
            everywhere = predicate.shares(self.recode, codes)
            touched = np.count_nonzero(everywhere > 0) - np.count_nonzero(shares > 0)
            missed = np.count_nonzero(everywhere < 1) - np.count_nonzero(shares < 1)
        else:
            # Every cell that is touched holds at least one combination that satisfies.
            satisfying = predicate.count()
            touched = min(n_hidden, satisfying)
            missed = min(n_hidden, self.schema.domain.size - satisfying)
        return float(touched * self.most_suppressed), float(missed * self.most_suppressed)


def _mechanism(settings: Mapping[str, Any]) -> CountMechanism:
    delta = settings.get("delta")
    return count_mechanism(
        settings["kind"],
        epsilon=Fraction(settings["epsilon"]),
        delta=None if delta is None else Fraction(delta),
        k=settings.get("k"),
    )


def _row_total(rows: Mapping[str, Any] | None) -> _Range | None:
    """Read the number of rows: public, or published with noise, or not known."""
    if rows is None:
        return None
    value, std = float(rows["value"]), float(rows["std"])
    # P[|noise| >= t] <= exp(-(t - 1) / scale) for the discrete Laplace distribution, and its
    # standard deviation is below scale * sqrt(2) by less than the 1 that is added here.
    half = 0.0 if std == 0 else 2 - std / 2**0.5 * float(np.log(1 - CONFIDENCE))
    return _Range(value=value, low=value - half, high=value + half, privacy_std=std)
