"""Estimator of published boxes with exact counts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Integers
from hushtable.methods.partition.column_bounds import covering_of
from hushtable.methods.partition.estimator import draw_rows
from hushtable.methods.partition.mondrian import Mondrian
from hushtable.methods.partition.region_table import COUNT, distinct_parts
from hushtable.query.answers.cell_sums import PublishedCells
from hushtable.query.answers.drawing import Generator
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import ComparableRelease, encoded, published_rows
from hushtable.query.answers.row_sums import RowFunction
from hushtable.query.answers.sums import SumEstimates
from hushtable.query.answers.uneven import cut_error
from hushtable.query.where import parse
from hushtable.query.where.covering import CodeSets
from hushtable.schema.codes import as_numpy

CUT_NOTE = "The condition splits groups; rows are assumed to be spread evenly inside them."


class BoxEstimator(Estimator):
    """Answer counts from boxes with exact counts; errors come only from split boxes."""

    quantiles_by_counts = True

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self._plan = Mondrian(**self.parameters).plan(self.schema)
        target = self._plan.target
        self._n_classes = 1 if target is None else self.schema.attributes[target].size
        boxes, shape = self.tables["boxes"], (-1, len(self._plan.axes))
        self._first = as_numpy(boxes["first"]).reshape(shape)
        self._last = as_numpy(boxes["last"]).reshape(shape)

    @cached_property
    def _counts(self) -> NDArray[np.float64]:
        return as_numpy(self.table[COUNT]).astype(np.float64)

    def _coverings(self, names: Sequence[str]) -> tuple[dict[str, CodeSets], dict[str, Integers]]:
        """Return the sides of the boxes as sets of codes, and the set of each box and class."""
        coverings, codes = {}, {}
        places = {axis.name: at for at, axis in enumerate(self._plan.axes)}
        for name in dict.fromkeys((*names, self._plan.axes[0].name)):
            if name == self._plan.target:
                codes[name] = np.tile(np.arange(self._n_classes), len(self._first))
                continue
            at = places[name]
            sides = np.stack((self._first[:, at], self._last[:, at]), axis=1)
            parts, which = distinct_parts(sides)
            coverings[name] = covering_of(self._plan.axes[at], parts)
            codes[name] = np.repeat(which, self._n_classes)
        return coverings, codes

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        predicate = parse(where, self.schema)
        shares = predicate.shares(*self._coverings(predicate.columns))
        cut = (shares > 0.0) & (shares < 1.0)
        error = cut_error(shares[cut], self._counts[cut])
        value = float(shares @ self._counts)
        return Estimate(
            value=value,
            low=value - error.below,
            high=value + error.above,
            privacy_std=0.0,
            model_std=error.std,
            notes=(CUT_NOTE,) * bool(cut.any()),
        )

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows."""
        names = tuple(dict.fromkeys(name for one in functions for name in one.columns))
        cells = PublishedCells(self.schema, *self._coverings(names))
        values = np.array([float(cells.means(one) @ self._counts) for one in functions])
        model = cells.inside(functions, self._counts, together=together)
        return SumEstimates(
            values, np.zeros_like(model), model, notes=(CUT_NOTE,) * bool(model.any())
        )

    def frame(self, rng: Generator | None = None) -> pa.Table:
        """Return rows with values sampled uniformly from their box, different on every call."""
        return draw_rows(
            self.schema,
            self._plan.axes,
            self._first,
            self._last,
            counts=as_numpy(self.table[COUNT]).reshape(-1, self._n_classes),
            target=self._plan.target,
            summarize="sample",
            rng=rng,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._counts.sum())

    def published(self, rng: Generator) -> ComparableRelease:
        """Return rows in comparable form, sampled again for each repetition."""
        return published_rows(
            self.schema,
            self.frame(rng),
            redraw=lambda again: encoded(self.schema, self.frame(again)),
            notes=("Values inside a group are sampled again for each repetition.",),
        )
