"""Answers from all waves of a series: levels, changes and trends, with intervals.

A question is answered from every wave's own noisy tables, which gives unbiased answers with
independent noise. Between waves the true count is modeled as a random walk
(`hushtable.series.drift`) with an estimated drift rate. All three kinds of answers are linear in
the resulting estimates, and so are their errors.

If a wave's tables do not determine a question, its release answers it from rows. Errors of such
answers are correlated across waves: what the model does not know is about the same every time. So
all of them are assumed to share one unknown error, with the largest variance of their model errors.
In addition, each has its own model error independently, which is conservative. In a change or a
trend between such answers, the shared part cancels. If no wave's tables determine the question, a
level is the release's own answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hushtable.arrays import Floats
from hushtable.errors import ParameterError
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate
from hushtable.query.where import Predicate, parse
from hushtable.series.drift import CountPath, WaveCounts
from hushtable.series.plan import said, slope_weights
from hushtable.series.waves import Wave, Waves, in_words, quilt_of

_TABLES = said["from tables"]
_ROWS = said["from rows"]


_EXACT = 0.5  # minimum standard deviation, in rows: represents the absence of noise


@dataclass(frozen=True)
class _WaveAnswer:
    """The answer of one wave."""

    value: float
    std: float  # standard deviation of its error, including model error
    model_std: float | None  # standard deviation of model error; None if tables determine it
    with_total: float  # covariance of its noise with that of the wave's number of rows


class SeriesAnswers:
    """Answers from all waves of a series.

    Parameters
    ----------
    waves : Waves
        The published waves.
    """

    def __init__(self, waves: Waves) -> None:
        self.waves = waves
        self.numbers = tuple(wave.number for wave in waves.waves)
        self.schema = waves.first.release.schema
        self._paths: dict[str, tuple[CountPath, tuple[int, ...]]] = {}

    def level(self, where: str, wave: int | None = None) -> Estimate:
        """Estimate how many rows of a wave (by default the last) satisfy a condition."""
        place = self._place(self.numbers[-1] if wave is None else wave)
        _, told = self._path(where)
        if not told:
            return self.waves.waves[place].release.count(where)
        found = self._estimate(where, np.eye(len(self.numbers))[place], "rows")
        # Counts are not negative: clip the value and the interval.
        value, low = max(0.0, found.value), max(0.0, found.low)
        return replace(found, value=value, low=low, high=max(found.high, value))

    def change(self, where: str, since: int, until: int | None = None) -> Estimate:
        """Estimate the change of a count from one wave to another (by default the last)."""
        end = self.numbers[-1] if until is None else until
        if since == end:
            raise ParameterError(f"since is {since}, and so is the wave to compare with.")
        weights = np.zeros(len(self.numbers))
        weights[self._place(end)], weights[self._place(since)] = 1.0, -1.0
        return self._estimate(where, weights, f"change from wave {since} to wave {end}")

    def trend(self, where: str) -> Estimate:
        """Estimate the slope of the least-squares line through a count at all waves, per wave."""
        if len(self.numbers) < 3:
            raise ParameterError(
                f"a trend needs at least 3 waves; {len(self.numbers)} were published."
            )
        about = f"rise per wave, waves {in_words(self.numbers)}"
        return self._estimate(where, slope_weights(self.numbers), about)

    def levels(self, where: str) -> list[Estimate]:
        """Return the level at every wave."""
        return [self.level(where, wave) for wave in self.numbers]

    # --- estimation -------------------------------------------------------------------------------

    def _estimate(self, where: str, weights: Floats, what: str) -> Estimate:
        path, told = self._path(where)
        value, variance = path.weighed(weights)
        std = math.sqrt(variance)
        note = _TABLES if told else _ROWS
        rest = " and the rows of the others" if len(told) < len(self.numbers) else ""
        return Estimate(
            value=value,
            low=value - NORMAL * std,
            high=value + NORMAL * std,
            privacy_std=std,
            model_std=0.0,
            what=what,
            notes=(
                note.format(in_words(told), rest, self._change_per_wave(where)),
                *self._notes_on_breaks(where),
            ),
        )

    def _notes_on_breaks(self, where: str) -> list[str]:
        """Return a note for each column with breaks, which earlier waves say less about."""
        columns = parse(where, self.schema).columns
        return [
            said("break in a column", name=name, waves=in_words(self.waves.breaks[name]))
            for name in columns
            if self.waves.breaks[name]
        ]

    def _path(self, where: str) -> tuple[CountPath, tuple[int, ...]]:
        """Return the estimates at each wave, and the waves whose tables determine them."""
        if where not in self._paths:
            self._paths[where] = self._found(parse(where, self.schema), where)
        return self._paths[where]

    def _found(self, predicate: Predicate, where: str) -> tuple[CountPath, tuple[int, ...]]:
        waves = zip(self._own, self.waves.waves, strict=True)
        found = [self._of_wave(estimator, wave, predicate, where) for estimator, wave in waves]
        told = tuple(n for n, one in zip(self.numbers, found, strict=True) if one.model_std is None)
        # Scale all waves to one size, so that a count that only grows with its wave is constant.
        sizes, totals = self.waves.sizes, self.waves.totals
        values = np.array([one.value for one in found]) / sizes
        # The noise is 0 if a condition selects no row, or all rows and their number is public.
        stds = np.maximum([one.std for one in found], _EXACT) / sizes
        model_stds = [one.model_std for one in found if one.model_std is not None]
        modeled = np.array([one.model_std is not None for one in found])
        path = CountPath.of_uncertain_rate(
            [
                WaveCounts(number, np.array([value]), np.array([std**2]), size)
                for number, value, std, size in zip(self.numbers, values, stds, sizes, strict=True)
            ],
            self._moves(predicate, values, stds),
            (modeled, max(_EXACT, *model_stds, 0.0) ** 2),
            self.waves.breaks_of(predicate.columns),
        )
        shared = np.array([one.with_total for one in found]) / sizes
        parts = sizes * self.waves.total
        both = shared[:, None] * totals.gains.T / parts
        return path.grown(sizes, totals.covariance / np.outer(parts, parts), both), told

    @staticmethod
    def _of_wave(
        estimator: QuiltEstimator, wave: Wave, predicate: Predicate, where: str
    ) -> _WaveAnswer:
        """Answer from a wave's tables, else from its rows.

        An answer from rows is a share of the number of rows, so its noise covaries with that.
        """
        total, found = wave.own_total, estimator.answer_from_tables(predicate)
        variance = float(total.variances[0])
        if found is not None:
            value, std, model_std = float(found.values[0]), float(found.privacy[0, 0]) ** 0.5, None
            with_total = float(found.privacy[0, 1])
        else:
            answer = wave.release.count(where)
            value, std, model_std = answer.value, answer.reach / NORMAL, answer.model_std
            with_total = value / max(1.0, float(total.counts[0])) * variance
        # A covariance is at most the product of the deviations.
        return _WaveAnswer(value, std, model_std, min(with_total, std * math.sqrt(variance)))

    def _change_per_wave(self, where: str) -> float:
        """Return the estimated share of the rows that changes from a wave to the next."""
        rate = self.waves.drift_rate(parse(where, self.schema).columns)
        return min(1.0, rate.difference / 2)

    def _moves(
        self, predicate: Predicate, values: Floats, stds: Floats
    ) -> tuple[float, float, float]:
        """Return the variances of lasting, passing and rising changes, for the average count."""
        precision = 1 / stds**2
        total = self.waves.total
        share = min(max(float(values @ precision / precision.sum()) / total, 0.0), 1.0)
        rate = self.waves.drift_rate(predicate.columns)
        lasting, passing, rising = self.waves.moves(rate, np.array([share]))
        return float(lasting[0]), float(passing[0]), float(rising[0])

    @cached_property
    def _own(self) -> Sequence[QuiltEstimator]:
        """Estimators of all waves."""
        return [quilt_of(wave.release) for wave in self.waves.waves]

    def _place(self, wave: int) -> int:
        if wave not in self.numbers:
            raise ParameterError(
                f"wave {wave} is not published; there are waves {in_words(self.numbers)}."
            )
        return self.numbers.index(wave)
