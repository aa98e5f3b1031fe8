"""A control where none was given: the method is run again on a part of the rows.

A release that is out was made from everybody, so nobody is left to compare its people with. But its
method and parameters are known: a random part of the rows is held back, the method is run again on
the others, and that release is attacked, with those held back as control. What is found is about
the method on this table, a quarter of it left out, and not about the noise that is out there.

It reads the private table and draws from a seed, as all of an evaluation does. What it makes lies
in a folder of its own for as long as it is attacked, is charged to nobody and shown to nobody.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from hushtable.errors import HushtableError
from hushtable.evaluation.rows import CodedRows
from hushtable.file_format import FileFormat
from hushtable.files.scratch import spill_folder
from hushtable.methods.registry import find
from hushtable.pipeline import publish
from hushtable.privacy.seeded_noise import SeededNoise
from hushtable.release import Release

SHARE = 0.25
"""Part of the rows that is held back."""

LEAST = 100
"""Fewer rows held back tell nothing."""

HELD_BACK = (
    "No control table was given: {n:,} rows, drawn at random, were held back as control, and the "
    "method was run again on the others, with the same parameters and noise of its own. The "
    "attacks are on that release."
)


@dataclass(frozen=True, eq=False)
class HeldBack:
    """Hold a release of a part of the rows, and the rows that are not in it.

    Parameters
    ----------
    release : Release
        What the method made of the part.
    published : table
        Its rows.
    original, control : CodedRows
        The rows that it was made from, and the others.
    """

    release: Release
    published: pa.Table
    original: CodedRows
    control: CodedRows


@contextmanager
def held_back(
    release: Release, rows: CodedRows, rng: np.random.Generator
) -> Iterator[HeldBack | None]:
    """Run the method of a release again on a part of the rows; None where that cannot be done.

    It cannot where a person has several rows (the others would be no others), where columns are
    derived, where rows are few, and where the method refuses so many rows.
    """
    schema, n_back = release.schema, round(SHARE * rows.n_rows)
    listing = find(release.statement.method)
    whole = set(rows.schema.attributes) == set(schema.attributes)
    if (
        listing is None
        or schema.unit.kind != "row"
        or schema.derived
        or not whole
        or n_back < LEAST
    ):
        yield None
        return
    order = rng.permutation(rows.n_rows)
    control, original = rows.take(np.sort(order[:n_back])), rows.take(np.sort(order[n_back:]))
    n_rows = None if schema.rows is None else original.n_rows
    told = {"rows": n_rows, "reading": FileFormat()}
    public = schema.of_rows(schema.attributes).model_copy(update=told)
    # Noise from a seed protects nobody: what lies there is gone with the process, even if killed.
    with tempfile.TemporaryDirectory(dir=spill_folder()) as folder:
        try:
            again = publish(
                original.table(),
                public,
                listing.load(listing.method)(**release.statement.parameters),
                out=Path(folder) / "release",
                noise=SeededNoise(int(rng.integers(2**63))),
                anyway=True,
            )
            published = again.published(rng).whole_rows
        except HushtableError:
            published = None
        yield None if published is None else HeldBack(again, published, original, control)
