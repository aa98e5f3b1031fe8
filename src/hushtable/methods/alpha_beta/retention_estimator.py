"""Count from rows of which each was kept or replaced by a random tuple of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from hushtable.codes import plain
from hushtable.estimate.associations import all_alike
from hushtable.estimate.base import Estimate, Estimator
from hushtable.estimate.drawing import Generator
from hushtable.estimate.published import Background, Published, published_rows
from hushtable.estimate.row_functions import RowFunction
from hushtable.estimate.sums import Sums, no_less
from hushtable.methods.alpha_beta.frapp import Frapp
from hushtable.methods.alpha_beta.two_coins import TwoCoins
from hushtable.predicate import parse


class RetentionEstimator(Estimator):
    """Answer counts of rows from a release by retention and replacement.

    With g the retention and p the share of the domain that satisfies a condition, each row is
    published as satisfying with probability g + (1-g) p if it does and (1-g) p if not.
    """

    def _open(self) -> None:
        """Take from the statement and the tables what answers need."""
        self.retention = Frapp(**self.parameters).retention
        self.notes = tuple(self.settings["notes"])

    def frame(self) -> pa.Table:
        """Give the rows as published; most of them are random."""
        return plain(self.table.select(list(self.schema.attributes)))

    def published(self, rng: Generator) -> Published:
        """Lay the rows beside the original's, with what the replaced ones add on average."""
        return published_rows(
            self.schema,
            self.frame(),
            background=Background(float(1 - self.retention) * self.table.num_rows),
            notes=(
                "Most published rows are replaced by random ones of a known law; what they add on "
                "average is taken off every distribution. Models are trained on the rows as "
                "published, noise included.",
            ),
        )

    def kept(self) -> dict[tuple[str, str], float]:
        """Rows are kept whole or replaced whole."""
        return all_alike(self.schema, float(self.retention))

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> Sums:
        """Estimate sums over rows.

        With m the mean of a function over the domain, a published row has g f + (1-g) m on average.
        Its covariances are linear in products of functions, so they are estimated the same way.
        """
        n_rows, kept = self.table.num_rows, float(self.retention)
        size = float(self.schema.domain.size)

        def estimate(function: RowFunction) -> tuple[float, float]:
            mean = function.over_domain(self.schema) / size
            seen = float(function.values(self.codes).sum())
            return (seen - (1 - kept) * mean * n_rows) / kept, mean

        found = [estimate(function) for function in functions]
        privacy = np.zeros((len(functions), len(functions)))
        for i in range(len(functions)):
            for j in range(i, len(functions)) if together else (i,):
                product, mean = estimate(functions[i] * functions[j])
                (one, mean_one), (two, mean_two) = found[i], found[j]
                both = kept * product + (1 - kept) * mean * n_rows
                means = kept**2 * product + (1 - kept) ** 2 * mean_one * mean_two * n_rows
                means += kept * (1 - kept) * (one * mean_two + two * mean_one)
                privacy[i, j] = privacy[j, i] = (both - means) / kept**2
        # Products are noisy, too; a variance below that of random rows alone cannot be.
        return Sums(
            np.array([value for value, _ in found]),
            no_less(privacy),
            np.zeros_like(privacy),
            notes=self.notes,
        )

    def count(self, where: str) -> Estimate:
        """Estimate how many rows of the private table satisfy a condition."""
        return self.answer(where).estimate(*self.notes)

    def answer(self, where: str) -> TwoCoins:
        """Give all that the release says about a condition."""
        predicate = parse(where, self.schema)
        seen = predicate.mask(self.codes)
        n_domain = predicate.count()
        replaced = (1 - self.retention) * Fraction(n_domain, self.schema.domain.size)
        return TwoCoins(
            n_seen=int(np.count_nonzero(seen)),
            n_items=self.table.num_rows,
            low=replaced,
            high=self.retention + replaced,
            most=self.table.num_rows if n_domain else 0,
        )
