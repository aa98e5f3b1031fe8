"""What all waves together tell: a level, a change, a trend, each with an interval.

A question is asked of every wave's own noisy tables, which gives unbiased answers with independent
noise. Between waves the true count is taken to walk (`hushtable.series.drift`), at the pace that
was learned. All three answers are weighted sums of what is then known, and so are their errors.

Where a wave's tables do not decide a question, its release answers it, from rows. Errors of such
answers hang together from wave to wave: what the model does not know is about the same every time.
So all of them are taken to be off by one unknown amount, as large as models may be off, and by as
much again by themselves, which is rather too much. In a change or a trend what stays the same
cancels. Where no wave's tables decide, a level is the release's own answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from hushtable.errors import ParameterError
from hushtable.estimate.base import Estimate
from hushtable.estimate.quantiles import NORMAL
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.methods.quilt.measured_tables import LinearAnswer
from hushtable.methods.registry import estimator_for
from hushtable.predicate import Predicate, parse
from hushtable.series.drift import Floats, Pace, Path
from hushtable.series.plan import slope_weights
from hushtable.series.waves import Wave, Waves, in_words

_TABLES = (
    "From the noisy tables of waves {}{}, taken to move by about {:.1%} of the rows a wave, as "
    "tables say."
)
_ROWS = (
    "No noisy table decides the condition: the answer is from the rows of all waves, whose count "
    "is taken to move by about {2:.1%} of the rows a wave."
)


_EXACT = 0.5  # what stands for no noise at all


class SeriesAnswers:
    """Answer questions from all waves of a series.

    Parameters
    ----------
    waves : Waves
        What was published.
    """

    def __init__(self, waves: Waves) -> None:
        self.waves = waves
        self.numbers = tuple(wave.number for wave in waves.waves)
        self.schema = waves.first.release.schema
        self._paths: dict[str, tuple[Path, tuple[int, ...]]] = {}

    def level(self, where: str, wave: int | None = None) -> Estimate:
        """Estimate how many rows of a wave, the last unless told, satisfy a condition."""
        place = self._place(self.numbers[-1] if wave is None else wave)
        _, told = self._path(where)
        if not told:
            return self.waves.waves[place].release.count(where)
        found = self._estimate(where, np.eye(len(self.numbers))[place], "rows")
        # Counts are not negative: the interval is around what can be.
        value, low = max(0.0, found.value), max(0.0, found.low)
        return replace(found, value=value, low=low, high=max(found.high, value))

    def change(self, where: str, since: int, until: int | None = None) -> Estimate:
        """Estimate by how much a count rose from one wave to another, the last unless told."""
        end = self.numbers[-1] if until is None else until
        if since == end:
            raise ParameterError(f"since is wave {since}, which is the one compared with it.")
        weights = np.zeros(len(self.numbers))
        weights[self._place(end)], weights[self._place(since)] = 1.0, -1.0
        return self._estimate(where, weights, f"change from wave {since} to wave {end}")

    def trend(self, where: str) -> Estimate:
        """Estimate the slope of the straight line through a count at all waves, per wave."""
        if len(self.numbers) < 3:
            raise ParameterError(
                f"a trend takes at least 3 waves; {len(self.numbers)} were published."
            )
        about = f"rise per wave, waves {in_words(self.numbers)}"
        return self._estimate(where, slope_weights(self.numbers), about)

    def levels(self, where: str) -> list[Estimate]:
        """Give the level at every wave."""
        return [self.level(where, wave) for wave in self.numbers]

    # --- how --------------------------------------------------------------------------------------

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
            notes=(note.format(in_words(told), rest, min(1.0, self._pace(where).apart / 2)),),
        )

    def _path(self, where: str) -> tuple[Path, tuple[int, ...]]:
        """Say what is known at each wave, and which waves' tables decided it."""
        if where not in self._paths:
            self._paths[where] = self._found(parse(where, self.schema), where)
        return self._paths[where]

    def _found(self, predicate: Predicate, where: str) -> tuple[Path, tuple[int, ...]]:
        answers = [estimator.told(predicate) for estimator in self._own]
        told = tuple(n for n, answer in zip(self.numbers, answers, strict=True) if answer)
        found = [
            answer or wave.release.count(where)
            for answer, wave in zip(answers, self.waves.waves, strict=True)
        ]
        values = np.array([one.value for one in found])
        stds = np.array([one.std for one in found])
        # As if all waves were of one size, so that a count that only grows with them stands still.
        sizes, totals = self.waves.sizes, self.waves.totals
        values, stds = values / sizes, np.maximum(stds, _EXACT) / sizes  # rows may be public
        modeled = np.array([answer is None for answer in answers])
        amounts = [one.model_std for one in found if isinstance(one, Estimate)]
        off = (modeled, max(_EXACT, *amounts, 0.0) ** 2)
        lasting, passing, rising = self._moves(predicate, values, stds)
        path = Path.of(
            self.numbers,
            values,
            stds**2,
            lasting,
            passing=passing / sizes,
            rising=rising,
            off=off,
        )
        shared = [self._shared(*one) for one in zip(found, self.waves.waves, strict=True)]
        parts = sizes * self.waves.total
        both = (np.array(shared) / sizes)[:, None] * totals.gains.T / parts
        return path.grown(sizes, totals.covariance / np.outer(parts, parts), both), told

    @staticmethod
    def _shared(answer: Estimate | LinearAnswer, wave: Wave) -> float:
        """Give the covariance of an answer's noise with that of the number of rows of its wave.

        An answer from rows is a share of them. Neither shares more noise than it has.
        """
        total = wave.own_total
        rows, variance = max(1.0, float(total.counts[0])), float(total.variances[0])
        if isinstance(answer, LinearAnswer):
            shared = answer.with_total
        else:
            shared = answer.value / rows * variance
        return min(shared, answer.std * math.sqrt(variance))

    def _pace(self, where: str) -> Pace:
        return self.waves.pace(parse(where, self.schema).columns)

    def _moves(self, predicate: Predicate, values: Floats, stds: Floats) -> list[float]:
        """Give the variances of what lasts, passes and rises, from what the count is on average."""
        precision = 1 / stds**2
        total = self.waves.total
        share = min(max(float(values @ precision / precision.sum()) / total, 0.0), 1.0)
        moves = self.waves.moves(self.waves.pace(predicate.columns), np.array([share]))
        return [float(variance[0]) for variance in moves]

    @cached_property
    def _own(self) -> Sequence[QuiltEstimator]:
        """For each wave what its own noisy tables tell."""
        return [_alone(wave) for wave in self.waves.waves]

    def _place(self, wave: int) -> int:
        if wave not in self.numbers:
            raise ParameterError(
                f"wave {wave} is not published; there are waves {in_words(self.numbers)}."
            )
        return self.numbers.index(wave)


def _alone(wave: Wave) -> QuiltEstimator:
    """Read a release without what it carries on from other waves."""
    release = wave.release
    settings = wave.settings
    tables = {name: release.table(name) for name in release.statement.tables}
    fresh = [table for table in settings["tables"] if "carried" not in table]
    kept = np.repeat(
        ["carried" not in table for table in settings["tables"]],
        [math.prod(table["shape"]) for table in settings["tables"]],
    )
    tables["measured"] = tables["measured"].filter(kept)
    found = estimator_for(
        {**settings, "tables": fresh}, release.schema, release.statement.parameters, tables
    )
    assert isinstance(found, QuiltEstimator)  # noqa: S101 - all waves are quilts
    return found
