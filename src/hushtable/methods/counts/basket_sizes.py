"""Distribution of the number of values per person, and correction for values that are not used.

At most m values of a person are used: of s values, each with probability min(1, m/s). How far an
answer is too low depends on how many values the people in question have, which is not published. A
noisy histogram of sizes bounds it; see ``columns.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Self

import numpy as np

from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.sums import SumEstimates


def size_ends(kept: int, most: int) -> list[int]:
    """Return the largest size of each class, in steps of a third; `kept` is one of them. Public.

    Examples
    --------
    >>> size_ends(4, 32)
    [1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 29, 32]
    """
    ends = [1]
    while ends[-1] < most:
        following = max(ends[-1] + 1, ends[-1] * 4 // 3)
        limit = kept if ends[-1] < kept else most
        ends.append(min(following, limit))
    return ends


def class_of_sizes(ends: Sequence[int]) -> list[int]:
    """Return the class of each size from 1 on."""
    return [int(place) for place in np.searchsorted(ends, np.arange(1, ends[-1] + 1))]


@dataclass(frozen=True)
class BasketSizes:
    """Noisy numbers of people by number of values, of which `kept` are used.

    Examples
    --------
    >>> sizes = BasketSizes(kept=2, ends=(1, 2, 4), counts=(10, 20, 30), std=0.0)
    >>> round(sizes.share_kept, 3)  # people with 3 or 4 values keep 2 of them
    0.71
    """

    kept: int  # maximum number of values of a person that are used
    ends: tuple[int, ...]  # largest size of each class
    counts: tuple[int, ...]  # noisy number of people in each class
    std: float  # standard deviation of each of these counts

    @classmethod
    def read(cls, kept: int, published: Mapping[str, Any]) -> Self:
        """Read the distribution from the settings of a release."""
        ends, counts = tuple(published["ends"]), tuple(published["counts"])
        return cls(kept, ends, counts, float(published["std"]))

    @property
    def share_kept(self) -> float:
        """Share of all values that are used, with each size at the middle of its class."""
        starts = np.append(1, np.array(self.ends[:-1], np.int64) + 1)
        middle = (starts + np.array(self.ends)) / 2
        people = np.maximum(self.counts, 0)
        return float(
            (people * np.minimum(middle, self.kept)).sum() / max((people * middle).sum(), 1e-9)
        ) or 1.0  # fmt: skip

    @property
    def most_short(self) -> float:
        """Upper bound on the number of people with more values than are used."""
        short = [
            count for end, count in zip(self.ends, self.counts, strict=True) if end > self.kept
        ]
        return max(0.0, sum(short) + NORMAL * self.std * sqrt(len(short)))

    def most_who_have(self, counted: float) -> float:
        """Bound how many people have a value, given the number of them that was counted.

        The loss is largest if these people have as many values as possible: fill the largest
        classes first, each person with the smallest probability of its class.
        """
        left, people, n_filled = counted, 0.0, 0
        for end, count in zip(reversed(self.ends), reversed(self.counts), strict=True):
            if end <= self.kept or left <= 0:
                break
            chance = self.kept / end
            taken = min(max(count, 0.0), left / chance)
            people, left, n_filled = people + taken, left - taken * chance, n_filled + 1
        # One more person in a class adds at most one person to the result.
        noise = NORMAL * self.std * sqrt(n_filled)
        most = self.ends[-1] / self.kept * counted
        return min(people + max(0.0, left) + noise, max(counted, most))

    def undone(self, seen: Estimate, *, of_one_item: bool) -> Estimate:
        """Convert an answer about the used values into one about all values."""
        short = self.most_short
        if of_one_item:
            # Everyone who was counted has the value; the number counted is a sum of independent
            # Bernoulli variables.
            counted = seen.high + NORMAL * sqrt(seen.high) + NORMAL**2
            low = seen.low
            high = min(self.most_who_have(counted), counted + short)
            value = seen.value / self.share_kept
            note = (
                f"At most {self.kept} values per person are used, a random subset if there are "
                "more. The estimate assumes that people with this value have as many other "
                "values as average; the interval is valid for any number."
            )
        else:
            low, high, value = max(0.0, seen.low - short), seen.high + short, seen.value
            note = (
                f"At most {self.kept} values per person are used, a random subset if there are "
                "more. The estimate refers to the used values; the interval allows for all "
                "people with more values to satisfy the condition, or none of them."
            )
        return Estimate(
            value=min(max(value, low), high),
            low=low,
            high=high,
            privacy_std=seen.privacy_std / (self.share_kept if of_one_item else 1.0),
            model_std=float(np.hypot(seen.model_std, (high - low) / sqrt(12))),
            notes=(*seen.notes, note),
        )

    def undone_sums(self, seen: SumEstimates) -> SumEstimates:
        """Scale sums over people; the model error allows for the same amount again."""
        kept = self.share_kept
        gained = np.outer(seen.values, seen.values) * (1 / kept - 1) ** 2
        note = (
            f"At most {self.kept} values per person are used, a random subset if there are "
            "more. Sums are scaled up as if this were unrelated to the question."
        )
        scaled = seen.divided(kept)
        return replace(scaled, model=scaled.model + gained, notes=(*seen.notes, note))
