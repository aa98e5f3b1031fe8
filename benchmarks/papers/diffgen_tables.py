"""DiffGen with all defaults on tables without taxonomies: bank marketing and German credit.

``python -m benchmarks.papers.diffgen_tables [--from FOLDER] [--runs N]`` reads the tables from a
Python package (see `benchmarks.real_tables`), drafts their schemas, and divides each table at
random: two thirds are published, one third is for the test. It prints the accuracy of a tree
trained on a release (see `hushtable_papers.adult_accuracy`), of the most frequent class, and of a
tree trained on raw rows. Adult with its taxonomies is included for comparison.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from benchmarks.real_tables import TABLES, confirmed, fetched

from hushtable import DiffGen, Schema
from hushtable.drafting import drafted
from hushtable.engine import connect
from hushtable.schema.codes import to_labels
from hushtable_papers.adult_accuracy import (
    Division,
    accuracy,
    baseline_accuracy,
    divisions,
    lower_accuracy,
    summary,
)

TARGETS = {"bank": "y", "german": "credit_risk"}
EPSILONS = ("0.1", "0.25", "0.5", "1")


def divided(name: str, packages: Path, folder: Path, runs: int) -> tuple[Division, ...]:
    """Divide a table at random several times."""
    file, target = TABLES[name](packages, folder), TARGETS[name]
    drawn = confirmed(drafted(file).schema)
    codes = connect(file, drawn, engine="memory").codes(list(drawn.attributes))
    table = pa.table(
        {column: to_labels(drawn.attributes[column], codes[column]) for column in codes}
    )
    content = drawn.to_dict()
    content.pop("reading", None)
    content["columns"] = {column: content["columns"][column] for column in codes}
    schema, n_rows = Schema.from_dict(content), len(table)
    made = []
    for seed in range(runs):
        order = np.random.default_rng(seed).permutation(n_rows)
        train, test = order[: 2 * n_rows // 3], order[2 * n_rows // 3 :]
        engine = connect(table.take(pa.array(train)), schema, engine="memory")
        parts = [{column: codes[column][rows] for column in codes} for rows in (train, test)]
        made.append(Division(target, engine, parts[0], parts[1]))
    return tuple(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="given", type=Path, help="Folder of downloaded packages.")
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    print(f"{'table':8} {'majority':>9} {'raw':>13} " + "".join(f"{e:>15}" for e in EPSILONS))
    with tempfile.TemporaryDirectory() as folder:
        packages = fetched(Path(folder), given.given)
        for name in (*TARGETS, "adult"):
            made = (
                divisions(given.runs)
                if name == "adult"
                else divided(name, packages, Path(folder), given.runs)
            )
            line = f"{name:8} {summary(map(lower_accuracy, made))[0]:9.2f}"
            found = [summary(map(baseline_accuracy, made))]
            for epsilon in EPSILONS:
                method = DiffGen(epsilon=epsilon, target=made[0].target)
                found.append(summary([accuracy(method, division) for division in made]))
            print(line + "".join(f"{mean:8.2f} ± {error:.2f}" for mean, error in found), flush=True)


if __name__ == "__main__":
    main()
