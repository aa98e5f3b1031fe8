"""Fits of quilt that fail, on generated tables of random shapes.

Run it with ``python -m benchmarks.quilt_fits [--tables N] [--first N]``. The tables have 20 to
20,000 rows and 2 to 60 columns: constant, nearly constant, skewed, wide and dependent ones, some
copies of others. Some units are persons with up to 20 rows. Each table is published once with a
seed, at an epsilon between 0.1 and 20. A fit is *lost* if the rows contradict a one-way table, and
*reduced* if tables were left out of the model to avoid that. The last line counts both.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.engine import connect
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.schema import Schema


def generated(seed: int) -> tuple[pa.Table, Schema, float]:
    """Generate a table of random shape with its schema, and an epsilon."""
    draw = np.random.default_rng(seed)
    n_rows = int(np.exp(draw.uniform(np.log(20), np.log(20_000))))
    n_columns = int(np.exp(draw.uniform(np.log(2), np.log(60))))
    hidden = draw.normal(size=(n_rows, 3))
    columns: dict[str, Any] = {}
    described: dict[str, Any] = {}
    for place in range(n_columns):
        size = int(np.exp(draw.uniform(0, np.log(600)))) + 1
        kind = draw.choice(["dependent", "skewed", "rare", "constant", "copy", "uniform"])
        at = hidden @ draw.normal(size=3) + draw.normal(size=n_rows) * draw.exponential()
        if kind == "dependent":
            values = np.argsort(np.argsort(at)) * size // n_rows
        elif kind == "skewed":
            values = np.minimum(draw.geometric(draw.uniform(0.01, 0.9), n_rows) - 1, size - 1)
        elif kind == "rare":
            values = (draw.random(n_rows) < 0.01) * draw.integers(0, size, n_rows)
        elif kind == "copy" and place:
            values, size = columns[f"c{place - 1}"], described[f"c{place - 1}"]["high"] + 1
        else:
            values = draw.integers(0, size if kind == "uniform" else 1, n_rows)
        columns[f"c{place}"] = values
        described[f"c{place}"] = {"type": "integer", "low": 0, "high": size - 1}
    known: dict[str, Any] = {"name": "generated", "columns": described}
    if draw.random() < 0.4:
        most = int(draw.integers(2, 21))
        described["person"] = {"type": "integer", "low": 0, "high": n_rows, "role": "identifier"}
        columns["person"] = draw.integers(0, max(1, n_rows // int(draw.integers(1, 30))), n_rows)
        known["unit"] = {"kind": "person", "column": "person", "max_rows": most}
    return pa.table(columns), Schema.from_dict(known), float(np.exp(draw.uniform(-2.3, 3)))


def fitted(seed: int) -> tuple[str, str]:
    """Publish a table; return how the fit ended, and a description."""
    table, schema, epsilon = generated(seed)
    noise = SeededNoise(seed)
    start = time.process_time()
    method = Quilt(epsilon=round(epsilon, 3), delta="1e-9" if seed % 4 else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = method.run(connect(table, schema, engine="memory", noise=noise), noise)
    notes = [*made.warnings, *made.settings["notes"]]
    ended = "lost" if any("could not be fitted, even" in note for note in notes) else "whole"
    if any("could not be fitted to all" in note for note in notes):
        ended = "reduced"
    return ended, (
        f"{table.num_rows} rows, {len(schema.attributes)} columns, max_rows "
        f"{schema.unit.max_rows or 1}, epsilon {epsilon:.2f}, {time.process_time() - start:.1f} s"
    )


def main(given: Sequence[str] | None = None) -> None:
    """Publish all tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quilt_fits")
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args(given)
    found: list[str] = []
    for seed in range(asked.first, asked.first + asked.tables):
        ended, described = fitted(seed)
        found.append(ended)
        if ended != "whole":
            print(f"table {seed}: {ended}; {described}", flush=True)
    counts = ", ".join(f"{found.count(kind)} {kind}" for kind in ("whole", "reduced", "lost"))
    print(f"{len(found)} tables: {counts}")


if __name__ == "__main__":
    main()
