"""NIST's benchmark: K-marginal and propensity scores of quilt on American Community Survey data.

Run it with ``python -m benchmarks.nist [--runs N] [--epsilons ...] [--tables ten|all ...] [--rules]
[--data FOLDER]``. The data are NIST's Diverse Communities Data Excerpts of 2019, national: 27,253
persons. Schemas follow from the data dictionary, and the codes of industries from the schemas that
NIST publishes with the excerpts. The folder is ``../shared/data/nist_acs`` or
``$HUSHTABLE_DATA/nist_acs``; without it, nothing is run.

- *K-marginal*: 1000 - 500 times the mean L1 distance of marginals, as SDNist 2.5 computes it. If
  PUMA is published, it is a column of every marginal: PUMA and each pair of the others. Else the
  marginals are all pairs. Numbers count in about 20 bins (`QUANTILES`, `DENSITIES`).
- *Propensity*: mean squared deviation of the probability by which a tree of depth 5 tells synthetic
  from private rows.
- *Inconsistent* rows: those that break a rule of the data dictionary (`RULES`).

The first lines calibrate: scores of samples of the private rows. SDNist gives samples of 10% and
40% of the ten columns 969 and 987, and of all columns 825 and 925.
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
BOUNDS = {"NOC": (0, 19), "POVPIP": (0, 501), "WGTP": (0, 9999)}
"""Bounds of numeric columns for which the dictionary lists values besides the minimum."""

INDUSTRIES = re.findall(
    r"\d+",
    """
    170 180 190 270 280 290 370 380 390 470 490 570 580 590 670 680 690 770 1070 1080 1090 1170
    1180 1190 1270 1280 1290 1370 1390 1480 1490 1570 1590 1670 1691 1770 1790 1870 1880 1890
    1990 2070 2090 2170 2180 2190 2270 2280 2290 2370 2380 2390 2470 2480 2490 2570 2590 2670
    2680 2690 2770 2780 2790 2870 2880 2890 2970 2980 2990 3070 3080 3095 3170 3180 3291 3365
    3370 3380 3390 3470 3490 3570 3580 3590 3670 3680 3690 3770 3780 3790 3875 3895 3960 3970
    3980 3990 4070 4080 4090 4170 4180 4195 4265 4270 4280 4290 4370 4380 4390 4470 4480 4490
    4560 4570 4580 4585 4590 4670 4680 4690 4770 4780 4795 4870 4880 4890 4971 4972 4980 4990
    5070 5080 5090 5170 5180 5190 5275 5280 5295 5370 5381 5391 5470 5480 5490 5570 5580 5593
    5670 5680 5690 5790 6070 6080 6090 6170 6180 6190 6270 6280 6290 6370 6380 6390 6470 6480
    6490 6570 6590 6670 6672 6680 6690 6695 6770 6780 6870 6880 6890 6970 6991 6992 7071 7072
    7080 7181 7190 7270 7280 7290 7370 7380 7390 7460 7470 7480 7490 7570 7580 7590 7670 7680
    7690 7770 7780 7790 7860 7870 7880 7890 7970 7980 7990 8070 8080 8090 8170 8180 8191 8192
    8270 8290 8370 8380 8390 8470 8561 8562 8563 8564 8570 8580 8590 8660 8670 8680 8690 8770
    8780 8790 8870 8891 8970 8980 8990 9070 9080 9090 9160 9170 9180 9190 9290 9370 9380 9390
    9470 9480 9490 9570 9590 9670 9680 9690 9770 9780 9790 9870 9920
    """,
)
"""The 269 industry codes in NIST's schemas of the excerpts."""

QUANTILES = {"AGEP": 20, "PINCP": 19, "POVPIP": 19, "WGTP": 20, "PWGTP": 20}
"""Columns that count in quantiles of the private table, and the number of these."""

DENSITIES = (0, 150, *np.logspace(1, np.log10(52864.7 + 500), 21)[8:])
"""Bins of DENSITY."""

RULES = (
    "AGEP >= 15 OR MSP = 'N'",
    "AGEP < 15 OR MSP <> 'N'",
    "AGEP >= 15 OR DVET = 'N'",
    "AGEP >= 15 OR PINCP IS NULL",
    "AGEP < 15 OR PINCP IS NOT NULL",
    "AGEP >= 15 OR PINCP_DECILE = 'N'",
    "AGEP < 15 OR PINCP_DECILE <> 'N'",
    "AGEP >= 15 OR INDP = 'N'",
    "AGEP >= 15 OR INDP_CAT = 'N'",
    "INDP <> 'N' OR INDP_CAT = 'N'",
    "INDP = 'N' OR INDP_CAT <> 'N'",
    "AGEP >= 3 OR EDU = 'N'",
    "AGEP < 3 OR EDU <> 'N'",
    "AGEP >= 15 OR EDU IN ('N', '1', '2', '3', '4', '5', '6', '7', '8', '9')",
    "AGEP >= 5 OR EDU IN ('N', '1', '2', '3', '4')",
    "AGEP >= 5 OR DPHY = 'N'",
    "AGEP < 5 OR DPHY <> 'N'",
    "AGEP >= 5 OR DREM = 'N'",
    "AGEP < 5 OR DREM <> 'N'",
    "HOUSING_TYPE = '1' OR OWN_RENT = '0'",
    "HOUSING_TYPE <> '1' OR OWN_RENT <> '0'",
    "HOUSING_TYPE = '1' OR WGTP = 0",
    "HOUSING_TYPE <> '1' OR WGTP > 0",
    "HOUSING_TYPE = '1' OR NPF IS NULL",
    "HOUSING_TYPE = '1' OR NOC IS NULL",
    "HOUSING_TYPE <> '1' OR NOC IS NOT NULL",
    "NOC IS NULL OR NPF IS NULL OR NOC < NPF",
)
"""Facts that the data dictionary states, which SDNist also checks; the private rows obey them."""

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
        values = dictionary[name].get("values") or dict.fromkeys(["N", *INDUSTRIES])
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
            for rule in RULES
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
    """Return the values of tables as codes shared by all of them; the first table is the private.

    Numbers are binned as in SDNist: by quantiles of the private table, DENSITY by powers of ten.
    """
    found: list[Codes] = [{} for _ in tables]
    ends = np.cumsum([table.num_rows for table in tables])[:-1]
    for name in tables[0].column_names:
        if name not in QUANTILES and name != "DENSITY":
            texts = pa.chunked_array([chunk for t in tables for chunk in _texts(t[name])])
            codes = texts.combine_chunks().dictionary_encode().indices.to_numpy()
        else:
            values = np.concatenate([pc.cast(t[name], pa.float64()).to_numpy() for t in tables])
            known = values[: tables[0].num_rows]
            known = known[~np.isnan(known)]
            n_bins = QUANTILES.get(name, 1)
            cuts = np.percentile(known, np.arange(n_bins) * 100 / n_bins, method="higher")
            edges = np.unique([*cuts, known.max()]) if name in QUANTILES else np.array(DENSITIES)
            inside = np.clip(np.searchsorted(edges, values), 1, len(edges) - 1)
            codes = np.where(np.isnan(values), 0, inside)
        for place, part in enumerate(np.split(codes, ends)):
            found[place][name] = part
    return found


def _texts(column: pa.ChunkedArray) -> list[pa.Array]:
    """Return the values of a column as texts."""
    if not pa.types.is_dictionary(column.type) and not pa.types.is_string(column.type):
        column = pc.cast(column, pa.float64())
    return [pc.fill_null(chunk, "missing") for chunk in pc.cast(column, pa.string()).chunks]


def k_marginal(private: Codes, rows: Codes) -> float:
    """Return SDNist's K-marginal score; if PUMA is published, it is in every marginal."""
    names = [name for name in private if name != "PUMA"]
    each = ["PUMA"] * ("PUMA" in private)
    distances = [_distance(private, rows, [*each, *pair]) for pair in combinations(names, 2)]
    return float(1000 - 500 * np.mean(distances))


def _distance(private: Codes, rows: Codes, group: Sequence[str]) -> float:
    """Return the L1 distance of a marginal of two tables, as shares."""
    sizes = [1 + max(int(codes[name].max()) for codes in (private, rows)) for name in group]
    both = [np.ravel_multi_index([c[name] for name in group], sizes) for c in (private, rows)]
    cells = np.unique(np.concatenate(both), return_inverse=True)[1]
    mine, theirs = (
        np.bincount(part, minlength=int(cells.max()) + 1) / len(part)
        for part in np.split(cells, [len(both[0])])
    )
    return float(np.abs(mine - theirs).sum())


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
