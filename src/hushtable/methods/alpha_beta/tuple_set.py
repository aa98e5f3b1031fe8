"""The distinct tuples of the private table: which are kept, which others join, view by view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_values
from hushtable.domain import Domain
from hushtable.engine.cells import Cells
from hushtable.errors import ParameterError
from hushtable.methods.alpha_beta.insertions import SourceInsertions, UniformInsertions
from hushtable.methods.alpha_beta.views import is_among, merged
from hushtable.privacy.noise import Noise
from hushtable.privacy.sparse_subset import Keys
from hushtable.schema import Schema

Law = UniformInsertions | SourceInsertions


@dataclass(frozen=True)
class TupleSet:
    """The distinct tuples of the private table, by their keys, in order."""

    domain: Domain
    keys: Keys

    def perturbed(self, law: Law, noise: Noise) -> Keys:
        """Keep tuples of the table by their coins, insert others of the domain."""
        kept = self.keys[law.keep(self.domain.unpack(self.keys), noise)]
        inserted = law.insert(noise)
        return merged(kept, inserted[~is_among(inserted, self.keys)])

    def seen_again(self, earlier: Sequence[Keys], law: Law, views: int, noise: Noise) -> Keys:
        """Draw the next view by the paper's Algorithm 4."""
        if isinstance(law, SourceInsertions):
            raise ParameterError("algorithm-4 has no noise from a source distribution.")
        keep = law.alpha + law.beta
        before: Keys = np.empty((0, self.keys.shape[1]), np.int64)
        for view in earlier:
            before = merged(before, view[~is_among(view, before)])
        known = before[~is_among(before, self.keys)]
        again = noise.bernoulli(keep, size=len(known)) & noise.bernoulli_exp(
            Fraction(1, views), size=len(known)
        )
        rate = UniformInsertions(self.domain, law.alpha, (1 - keep) ** len(earlier) * law.beta)
        fresh = rate.insert(noise)
        fresh = fresh[~is_among(fresh, self.keys)]
        fresh = fresh[~is_among(fresh, before)]
        kept = self.keys[noise.bernoulli(keep, size=len(self.keys))]
        return merged(kept, known[again], fresh)


def kept_and_inserted(schema: Schema, law: Law, cells: Cells, noise: Noise) -> pa.Table:
    """Keep tuples of the table by their coins, and all that were inserted beside them."""
    held = cells.counts > 0
    shown = ~held
    shown[held] = law.keep(cells.codes[held], noise)
    return pa.table(written(schema, cells.codes[shown]))


def written(schema: Schema, codes: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Write tuples, one row of codes each, as the columns that are published."""
    return {
        name: to_values(column, codes[:, position])
        for position, (name, column) in enumerate(schema.attributes.items())
    }
