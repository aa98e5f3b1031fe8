"""NIST's benchmark: K-marginal and propensity scores of quilt on American Community Survey data.

Run it with ``python -m benchmarks.nist [--runs N] [--epsilons ...] [--tables ten|all ...] [--rules]
[--data FOLDER]``. The data are NIST's Diverse Communities Data Excerpts of 2019, national: 27,253
persons. Schemas follow from the data dictionary alone. The folder is ``../shared/data/nist_acs`` or
``$HUSHTABLE_DATA/nist_acs``; without it, nothing is run.

- *K-marginal*: 1000 - 500 times the mean L1 distance of pairs of columns drawn with replacement, as
  SDNist draws them, in expectation over all draws. Ages count in five years.
- *Propensity*: mean squared deviation of the probability by which a tree of depth 5 tells synthetic
  from private rows.
- *Inconsistent* rows: those that break a rule of the data dictionary (`RULES`).

The first lines calibrate: scores of samples of the private rows.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import re
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from hushtable.engine import connect
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.query.where.rules import keep_rules
from hushtable.schema import Categorical, Schema

TEN = (
    *("AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE"),
    *("DVET", "DEYE"),
)
"""Demographic columns."""

STEPS = {"DENSITY": 0.1}
BOUNDS = {"INDP": (0, 9999), "NOC": (0, 19), "POVPIP": (0, 501), "WGTP": (0, 9999)}
"""Bounds of numeric columns for which the dictionary lists values besides the minimum."""

RULES = {
    "MSP": "AGEP >= 15 OR MSP = 'N'",
    "DVET": "AGEP >= 15 OR DVET = 'N'",
    "PINCP": "AGEP >= 15 OR PINCP IS NULL",
    "PINCP_DECILE": "AGEP >= 15 OR PINCP_DECILE = 'N'",
    "INDP": "AGEP >= 15 OR INDP IS NULL",
    "INDP_CAT": "AGEP >= 15 OR INDP_CAT = 'N'",
    "EDU": "AGEP >= 3 OR EDU = 'N'",
    "EDU children": "AGEP >= 15 OR EDU IN ('N', '1', '2', '3', '4', '5', '6', '7', '8', '9')",
    "EDU toddlers": "AGEP >= 5 OR EDU IN ('N', '1', '2', '3', '4')",
    "NOC": "AGEP >= 10 OR NOC IS NULL",
    "DPHY": "AGEP >= 5 OR DPHY = 'N'",
    "DREM": "AGEP >= 5 OR DREM = 'N'",
    "OWN_RENT": "HOUSING_TYPE = '1' OR OWN_RENT = '0'",
    "OWN_RENT houses": "HOUSING_TYPE <> '1' OR OWN_RENT <> '0'",
    "NPF": "HOUSING_TYPE = '1' OR NPF IS NULL",
    "NOC in quarters": "HOUSING_TYPE = '1' OR NOC IS NULL",
    "NOC and NPF": "NOC IS NULL OR NPF IS NULL OR NOC < NPF",
}
"""The data dictionary's facts, by the column that they restrict, and a description."""

Codes = dict[str, NDArray[Any]]


def folder() -> Path:
    """Return the folder of the data."""
    given = os.environ.get("HUSHTABLE_DATA")
    shared = Path(given) if given else Path(__file__).parents[2] / "shared" / "data"
    return shared / "nist_acs"


def schema_of(dictionary: dict[str, Any], columns: Sequence[str], *, rules: bool) -> Schema:
    """Return the schema of some columns, from the data dictionary."""
    described: dict[str, Any] = {}
    for name in columns:
        values = dictionary[name].get("values") or {}
        if name not in BOUNDS and "min" not in values:
            described[name] = {"type": "categorical", "values": list(values)}
            continue
        low, high = BOUNDS.get(name) or (values["min"], values["max"])
        step = STEPS.get(name)
        described[name] = {"type": "integer" if step is None else "decimal"}
        described[name] |= {"low": low, "high": high} | ({} if step is None else {"step": step})
    known: dict[str, Any] = {"name": "acs", "columns": described}
    if rules:
        known["rules"] = [
            rule
            for rule in RULES.values()
            if {*re.findall("[A-Z_]{3,}", rule)} & {*dictionary} <= {*columns}
        ]
    for column in described.values():
        column["missing"] = "category" if column["type"] != "categorical" else "forbid"
    return Schema.from_dict(known)


def load(place: Path, columns: Sequence[str], schema: Schema) -> pa.Table:
    """Return the private table; texts that are not numbers are missing in numeric columns."""
    with gzip.open(place / "national2019.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    numeric = {name for name in columns if not isinstance(schema.attributes[name], Categorical)}
    return pa.table(
        {
            name: [
                (None if row[name] == "N" else float(row[name])) if name in numeric else row[name]
                for row in rows
            ]
            for name in columns
        }
    )


def codes_of(tables: Sequence[pa.Table]) -> list[Codes]:
    """Return the values of tables as codes shared by all of them; ages in five years."""
    found: list[Codes] = [{} for _ in tables]
    for name in tables[0].column_names:
        parts = []
        for table in tables:
            column = table[name]
            if pa.types.is_dictionary(column.type):
                column = pc.cast(column, pa.string())
            if not pa.types.is_string(column.type):
                column = pc.cast(column, pa.float64())
                column = pc.floor(pc.divide(column, 5.0)) if name == "AGEP" else column
            parts.append(pc.fill_null(pc.cast(column, pa.string()), "missing").combine_chunks())
        codes = pa.concat_arrays(parts).dictionary_encode().indices.to_numpy()
        ends = np.cumsum([len(part) for part in parts])[:-1]
        for place, part in enumerate(np.split(codes, ends)):
            found[place][name] = part
    return found


def k_marginal(private: Codes, rows: Codes) -> float:
    """Return the expected K-marginal score over all draws of two columns with replacement."""
    names = list(private)

    def distance(*group: str) -> float:
        sizes = [1 + max(int(codes[name].max()) for codes in (private, rows)) for name in group]
        ours, theirs = (
            np.unique(
                np.ravel_multi_index([codes[name] for name in group], sizes), return_counts=True
            )
            for codes in (private, rows)
        )
        cells = np.union1d(ours[0], theirs[0])
        shares = np.zeros((2, len(cells)))
        for place, (at, counts) in enumerate((ours, theirs)):
            shares[place, np.searchsorted(cells, at)] = counts / counts.sum()
        return float(np.abs(shares[0] - shares[1]).sum())

    single = np.mean([distance(name) for name in names])
    pairs = np.mean([distance(*pair) for pair in combinations(names, 2)])
    return float(1000 - 500 * (pairs + (single - pairs) / len(names)))


def propensity(private: Codes, rows: Codes) -> float:
    """Return the mean squared deviation of the propensity scores of a tree of depth 5."""
    values = np.concatenate([np.stack(list(codes.values()), axis=1) for codes in (private, rows)])
    n_rows = len(next(iter(rows.values())))
    made = np.arange(len(values)) >= len(values) - n_rows
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(values, made)
    share = n_rows / len(values)
    return float(np.mean((tree.predict_proba(values)[:, 1] - share) ** 2))


def inconsistent(table: pa.Table, schema: Schema) -> int:
    """Return the number of rows that break a rule."""
    kept = keep_rules(table, schema, noise=SeededNoise(0))
    differ = np.zeros(table.num_rows, bool)
    for name in table.column_names:
        before, after = (t[name].combine_chunks() for t in (table, kept))
        same = pc.fill_null(pc.equal(before, after), fill_value=False)
        both = pc.and_(pc.is_null(before), pc.is_null(after))
        differ |= ~pc.or_(same, both).to_numpy(zero_copy_only=False)
    return int(differ.sum())


def main(given: Sequence[str] | None = None) -> None:
    """Calibrate, publish, and print the scores."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nist")
    parser.add_argument("--data", type=Path, default=folder())
    parser.add_argument("--tables", nargs="+", choices=["ten", "all"], default=["ten", "all"])
    parser.add_argument("--epsilons", nargs="+", default=["1", "10"])
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rules", action="store_true", help="state the rules in the schema")
    asked = parser.parse_args(given)
    if not (asked.data / "data_dictionary.json").exists():
        print(f"skipped: {asked.data} does not have NIST's data")
        return
    dictionary = json.loads((asked.data / "data_dictionary.json").read_text())
    for which in asked.tables:
        columns = TEN if which == "ten" else tuple(dictionary)
        plain, ruled = (schema_of(dictionary, columns, rules=rules) for rules in (False, True))
        table = load(asked.data, columns, plain)
        draw = np.random.default_rng(0)
        for share in (0.1, 0.4):
            sample = table.take(draw.permutation(table.num_rows)[: int(share * table.num_rows)])
            score = k_marginal(*codes_of([table, sample]))
            print(f"{which}: a sample of {share:.0%} scores {score:.1f}", flush=True)
        schema = ruled if asked.rules else plain
        for epsilon in asked.epsilons:
            scores, start = [], time.process_time()
            for seed in range(asked.runs):
                noise = SeededNoise(seed)
                engine = connect(table, schema, engine="memory", noise=noise)
                rows = Quilt(epsilon=epsilon, delta=asked.delta).run(engine, noise).tables["data"]
                if asked.rules:
                    rows = keep_rules(rows, schema, noise=noise)
                private, made = codes_of([table, rows])
                scores.append(
                    [
                        k_marginal(private, made),
                        propensity(private, made),
                        inconsistent(rows, ruled),
                    ]
                )
            took = (time.process_time() - start) / asked.runs
            mean = np.mean(scores, axis=0)
            error = np.std(scores, axis=0, ddof=min(1, asked.runs - 1)) / asked.runs**0.5
            print(
                f"{which}, epsilon {epsilon}{', rules' if asked.rules else ''}: K-marginal "
                f"{mean[0]:.1f} +- {error[0]:.1f}, propensity {mean[1]:.4f} +- {error[1]:.4f}, "
                f"inconsistent rows {mean[2]:.0f}, {took:.1f} CPU s ({asked.runs} runs)",
                flush=True,
            )


if __name__ == "__main__":
    main()
