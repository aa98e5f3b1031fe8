"""Sets of codes of a column that may overlap, such as those of published regions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Integers


@dataclass(frozen=True)
class CodeSets:
    """Sets of codes of one column, each made of ranges of consecutive codes."""

    size: int  # number of sets
    owner: Integers  # set of each range
    first: Integers  # first code of each range; ranges of a set do not overlap
    last: Integers  # last code of each range

    def overlaps(self, starts: Integers, labels: Integers) -> Integers:
        """Count the codes that each set shares with each class of codes.

        `starts` is the first code of each run of codes of one class, ascending from 0; `labels` the
        class of each run.

        Examples
        --------
        >>> sets = CodeSets(2, np.array([0, 1, 1]), np.array([0, 2, 8]), np.array([4, 5, 9]))
        >>> sets.overlaps(np.array([0, 3, 9]), np.array([0, 1, 0])).tolist()
        [[3, 2], [2, 4]]
        """
        n_classes = int(labels.max()) + 1
        until = np.zeros((len(starts), n_classes), np.int64)
        until[np.arange(1, len(starts)), labels[:-1]] = np.diff(starts)
        until = np.cumsum(until, axis=0)

        def below(codes: Integers) -> Integers:
            run = np.searchsorted(starts, codes, side="right") - 1
            counts = until[run]
            counts[np.arange(len(codes)), labels[run]] += codes - starts[run]
            return counts

        shared = np.zeros((self.size, n_classes), np.int64)
        np.add.at(shared, self.owner, below(self.last + 1) - below(self.first))
        return shared
