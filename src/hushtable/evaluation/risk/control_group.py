"""Control group from a second run of the method, if no control table is given.

The release was made from all rows, so no rows are left as a control group. But its method and
parameters are known. A random part of the rows is held back, the method is run again on the others,
and that release is attacked, with the rows held back as control. The results describe the method on
three quarters of this table, not the noise of the actual release.

Like the rest of an evaluation, the second run reads the private table and uses a seed. Its release
exists in a temporary folder during the attacks only, is not charged to a ledger, and is not shown.
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
from hushtable.evaluation.inputs import CodedRows
from hushtable.files.writing import spill_folder
from hushtable.methods.registry import find
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema.file_format import FileFormat

SHARE = 0.25
"""Share of the rows that is held back."""

LEAST = 100
"""Minimum number of rows held back; with fewer, results would be uninformative."""

HELD_BACK = (
    "No control table was given. {n:,} random rows were held back as a control group, and the "
    "method was run again on the other rows, with the same parameters and new noise. The attacks "
    "are on that second release."
)


@dataclass(frozen=True, eq=False)
class AttackedRows:
    """A release, the rows that it was made from, and rows that are not in it, if there are any."""

    release: Release | None  # None for a plain table
    published: pa.Table
    original: CodedRows
    control: CodedRows | None


@contextmanager
def make_control_group(
    release: Release, rows: CodedRows, rng: np.random.Generator
) -> Iterator[AttackedRows | None]:
    """Run the method of a release again on part of the rows; yield None if that is not possible.

    It is not possible if a person has several rows (the control group would not be independent), if
    columns are derived or not all compared, if there are too few rows, or if the method refuses to
    run.
    """
    schema, n_back = release.schema, round(SHARE * rows.n_rows)
    spec = find(release.statement.method)
    whole = set(rows.schema.attributes) == set(schema.attributes)
    if spec is None or schema.unit.kind != "row" or schema.derived or not whole or n_back < LEAST:
        yield None
        return
    order = rng.permutation(rows.n_rows)
    control, original = rows.take(np.sort(order[:n_back])), rows.take(np.sort(order[n_back:]))
    n_rows = None if schema.rows is None else original.n_rows
    changes = {"rows": n_rows, "reading": FileFormat()}
    public = schema.of_rows(schema.attributes).model_copy(update=changes)
    # Seeded noise gives no protection: the folder must disappear even if the process is killed.
    with tempfile.TemporaryDirectory(dir=spill_folder()) as folder:
        try:
            again = publish(
                original.table(),
                public,
                spec.load(spec.method)(**release.statement.parameters),
                out=Path(folder) / "release",
                noise=SeededNoise(int(rng.integers(2**63))),
                anyway=True,
            )
            published = again.published(rng).whole_rows
        except HushtableError:
            published = None
        yield None if published is None else AttackedRows(again, published, original, control)
