"""Number of rows that reading a Parquet file allocates."""

from __future__ import annotations

import pyarrow.parquet as pq


def stored_rows(file: pq.ParquetFile) -> int:
    """Return the sum of rows over row groups: reading allocates memory for this many."""
    parts = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    return sum(part.num_rows for part in parts)
