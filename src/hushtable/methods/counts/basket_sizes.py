"""How many values people have, by classes of sizes, and what is lost where only some of them count.

Of a person with s values, m at most count: each of them with probability min(1, m/s). How much an
answer falls short then depends on how many values those have who are asked for, which nobody
published. A noisy histogram of sizes bounds it; see ``columns.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Self

import numpy as np

from hushtable.estimate.base import Estimate
from hushtable.estimate.quantiles import NORMAL
from hushtable.estimate.sums import Sums


def size_ends(kept: int, most: int) -> list[int]:
    """Give the largest size of each class, rising by a third: public, with `kept` among them.

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
    """Give the class of each size from 1 on."""
    return [int(place) for place in np.searchsorted(ends, np.arange(1, ends[-1] + 1))]


@dataclass(frozen=True)
class BasketSizes:
    """Know how many people have how many values, up to noise, and that `kept` of them count.

    Parameters
    ----------
    kept : int
        Most values of a person that count.
    ends : tuple of int
        The largest size of each class.
    counts : tuple of int
        Noisy numbers of people in each class.
    std : float
        Standard deviation of one of them.

    Examples
    --------
    >>> sizes = BasketSizes(kept=2, ends=(1, 2, 4), counts=(10, 20, 30), std=0.0)
    >>> round(sizes.share_kept, 3)  # people with 3 or 4 values keep 2 of them
    0.71
    """

    kept: int
    ends: tuple[int, ...]
    counts: tuple[int, ...]
    std: float

    @classmethod
    def read(cls, kept: int, published: Mapping[str, Any]) -> Self:
        """Take them from the settings of a release."""
        ends, counts = tuple(published["ends"]), tuple(published["counts"])
        return cls(kept, ends, counts, float(published["std"]))

    @property
    def share_kept(self) -> float:
        """The share of all values that count, sizes taken as the middle of their class."""
        starts = np.append(1, np.array(self.ends[:-1], np.int64) + 1)
        middle = (starts + np.array(self.ends)) / 2
        people = np.maximum(self.counts, 0)
        return float(
            (people * np.minimum(middle, self.kept)).sum() / max((people * middle).sum(), 1e-9)
        ) or 1.0  # fmt: skip

    @property
    def most_short(self) -> float:
        """How many people at most had more values than count."""
        short = [
            count for end, count in zip(self.ends, self.counts, strict=True) if end > self.kept
        ]
        return max(0.0, sum(short) + NORMAL * self.std * sqrt(len(short)))

    def most_who_have(self, counted: float) -> float:
        """Say how many people at most have a value, if it counts for so many of them on average.

        Most is lost if they have as many values as anybody has: the largest classes are filled
        first, each person with the least chance of its class.
        """
        left, people, n_filled = counted, 0.0, 0
        for end, count in zip(reversed(self.ends), reversed(self.counts), strict=True):
            if end <= self.kept or left <= 0:
                break
            chance = self.kept / end
            taken = min(max(count, 0.0), left / chance)
            people, left, n_filled = people + taken, left - taken * chance, n_filled + 1
        # One person more in a class is at most one person more in all.
        noise = NORMAL * self.std * sqrt(n_filled)
        most = self.ends[-1] / self.kept * counted
        return min(people + max(0.0, left) + noise, max(counted, most))

    def undone(self, seen: Estimate, *, of_one_item: bool) -> Estimate:
        """Turn an answer about the values that count into one about all values."""
        short = self.most_short
        if of_one_item:
            # Whoever was counted has the value. Those who were are a sum of independent coins.
            counted = seen.high + NORMAL * sqrt(seen.high) + NORMAL**2
            low = seen.low
            high = min(self.most_who_have(counted), counted + short)
            value = seen.value / self.share_kept
            note = (
                f"Of each person at most {self.kept} values count, a random part of those who have "
                "more. The value takes those who have this one to have as many others as people "
                "with so many values have on average; the interval holds however many they have."
            )
        else:
            low, high, value = max(0.0, seen.low - short), seen.high + short, seen.value
            note = (
                f"Of each person at most {self.kept} values count, a random part of those who have "
                "more. The value is about those that count; the interval allows for all who have "
                "more to satisfy the condition with them, or without."
            )
        return Estimate(
            value=min(max(value, low), high),
            low=low,
            high=high,
            privacy_std=seen.privacy_std / (self.share_kept if of_one_item else 1.0),
            model_std=float(np.hypot(seen.model_std, (high - low) / sqrt(12))),
            notes=(*seen.notes, note),
        )

    def undone_sums(self, seen: Sums) -> Sums:
        """Do the same for sums over people: scaled up, and off by up to as much again."""
        kept = self.share_kept
        gained = np.outer(seen.values, seen.values) * (1 / kept - 1) ** 2
        note = (
            f"Of each person at most {self.kept} values count, a random part of those who have "
            "more; sums are scaled up as if all people were alike in what is asked."
        )
        scaled = seen.divided(kept)
        return replace(scaled, model=scaled.model + gained, notes=(*seen.notes, note))
