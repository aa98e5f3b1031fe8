"""Figures 2 and 3 of Rastogi, Suciu and Hong: estimates against truth, and errors against FRAPP.

Run as ``python benchmarks/papers/alpha_beta_figures.py``; needs Adult under ``$HUSHTABLE_DATA`` or
``../shared/data``. Writes a JSON file and two plots to ``benchmarks/results``.

As in the paper: the 30,162 complete rows of Adult's training part, nine attributes with their
active domains (m = 648,023,040), d = 10 n/m, gamma = 0.2, all selections of one, two or three
attributes by single values. Unlike the paper rows are made distinct first, for both methods, and n
is the number of distinct tuples. Errors are averages over 3 releases.

Active domains come from the data here, as in the paper: a comparison, not a release.
"""

from __future__ import annotations

import json
import os
import tempfile
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hushtable.codes import to_codes
from hushtable.methods import AlphaBeta, Frapp, Method
from hushtable.methods.alpha_beta.frapp import same_privacy_retention
from hushtable.pipeline import publish
from hushtable.privacy.bounded_adversary import odds_limit
from hushtable.privacy.noise import Noise
from hushtable.release import Release
from hushtable.schema import Schema

ATTRIBUTES = (
    "age", "workclass", "education", "marital-status", "occupation", "race", "sex",
    "native-country", "income",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HUSHTABLE_DATA", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "benchmarks" / "results"
N_PAPER, N_DOMAIN, FACTOR, GAMMA = 30_162, 648_023_040, 10, Fraction(1, 5)
N_RUNS = 3
FROM = (0, 1, 10, 100, 300, 1000, 3000)
HALF = Fraction(1, 2)


def adult_of_the_paper(folder: Path) -> tuple[pa.Table, Schema]:
    """Read the distinct tuples of the training part and a schema of active domains."""
    options = pa_csv.ConvertOptions(null_values=["?"], strings_can_be_null=True)
    table = pa_csv.read_csv(folder / "adult" / "adult_all.csv.gz", convert_options=options)
    table = table.drop_null()
    table = table.filter(pc.equal(table["split"], "train")).select(ATTRIBUTES)
    table = table.set_column(0, "age", table["age"].cast(pa.string()))
    columns = {
        name: {"type": "categorical", "values": sorted(table[name].unique().to_pylist())}
        for name in ATTRIBUTES
    }
    schema = Schema.from_dict({"name": "Adult, nine attributes", "columns": columns})
    assert table.num_rows == N_PAPER
    assert schema.domain.size == N_DOMAIN
    return table.group_by(list(ATTRIBUTES)).aggregate([]), schema


def methods(n_tuples: int) -> dict[str, Method]:
    """Give the methods that are compared, by name."""
    d = Fraction(FACTOR * n_tuples, N_DOMAIN)
    c = 1 / odds_limit(d, GAMMA)
    retention = same_privacy_retention(d=d, gamma=GAMMA, n_tuples=n_tuples, n_domain=N_DOMAIN)
    return {
        "FRAPP": Frapp(retention=retention),
        "minimal beta": AlphaBeta(alpha=HALF - c / 2, beta=c / 2),
        "printed beta": AlphaBeta(alpha=HALF - d / GAMMA, beta=d / GAMMA),
        "exclusive (default)": AlphaBeta(d=d, n_public=30_200, gamma=GAMMA),
        "independent": AlphaBeta(d=d, n_public=30_200, gamma=GAMMA, adversary="independent"),
    }


def codes_of(table: pa.Table, schema: Schema) -> list[NDArray[np.int64]]:
    return [to_codes(column, table[name]) for name, column in schema.attributes.items()]


def all_selections(
    truth: list[NDArray[np.int64]], view: list[NDArray[np.int64]], sizes: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Count every selection of up to three attributes: in the table, the view, the domain."""
    counts = []
    for n_columns in (1, 2, 3):
        for columns in combinations(range(len(sizes)), n_columns):
            shape = [sizes[i] for i in columns]
            n_cells = int(np.prod(shape))
            row = [
                np.bincount(
                    np.ravel_multi_index([codes[i] for i in columns], shape), minlength=n_cells
                )
                for codes in (truth, view)
            ]
            counts.append((*row, np.full(n_cells, N_DOMAIN / n_cells)))
    true, seen, domain = (np.concatenate(part) for part in zip(*counts, strict=True))
    return true, seen, domain


def estimates(method: Method, release: Release, seen: NDArray, domain: NDArray) -> NDArray:
    """Apply the estimator's formula to many counts at once; `main` checks it against `count`."""
    if isinstance(method, Frapp):
        g, n_rows = float(method.retention), release.table().num_rows
        return (seen - n_rows * (1 - g) * domain / N_DOMAIN) / g
    assert isinstance(method, AlphaBeta)
    law = method.plan(release.schema).noise
    return (seen - float(law.beta) * domain) / float(law.alpha)


def cumulative(true: NDArray, error: NDArray) -> list[float]:
    """Give the average error over all selections with at least so many tuples (Figure 3)."""
    return [float(error[true >= start].mean()) for start in FROM]


def draw(points: dict[str, tuple[NDArray, NDArray]]) -> None:
    """Plot the estimates of one release, and errors averaged from the largest counts down."""
    figure = Figure(figsize=(10, 5))
    axes = figure.subplots(1, 2, sharey=True)
    for axis, name in zip(axes, ("FRAPP", "exclusive (default)"), strict=True):
        true, estimate = points[name]
        axis.plot(true, estimate, ".", markersize=1)
        axis.plot([0, true.max()], [0, true.max()], color="black", linewidth=0.8)
        axis.set(title=name, xlabel="true count")
    axes[0].set_ylabel("estimate")
    figure.savefig(RESULTS / "alpha_beta_figure_2.png", dpi=80)
    figure = Figure(figsize=(7, 5))
    axis = figure.subplots()
    for name, (true, estimate) in points.items():
        order = np.argsort(true)[::-1]
        average = np.cumsum(np.abs(estimate - true)[order]) / np.arange(1, len(true) + 1)
        axis.plot(true[order][99:], average[99:], label=name)
    axis.set(xlabel="true count at least", ylabel="average error", xscale="symlog")
    axis.legend()
    figure.savefig(RESULTS / "alpha_beta_figure_3.png", dpi=80)


def one_release(
    method: Method,
    table: pa.Table,
    schema: Schema,
    truth: list[NDArray[np.int64]],
    noise: Noise | None = None,
) -> tuple[NDArray, NDArray]:
    """Publish once and give the true count and the estimate of every selection."""
    with tempfile.TemporaryDirectory() as folder:
        release = publish(table, schema, method, out=Path(folder) / "r", noise=noise or "secure")
        view = codes_of(release.table(), schema)
        true, seen, domain = all_selections(truth, view, schema.domain.shape)
        found = estimates(method, release, seen, domain)
        male = sum(schema.domain.shape[:6]) + schema.attributes["sex"].values.index("Male")
        assert abs(release.count("sex = 'Male'").value - found[male]) < 1e-6
    return true, found


def main() -> None:
    """Publish with every method, print the cumulative average errors and their ratios."""
    table, schema = adult_of_the_paper(DATA)
    truth = codes_of(table, schema)
    print(f"{table.num_rows:,} distinct tuples of {N_PAPER:,} rows")
    errors: dict[str, list[float]] = {}
    points = {}
    for name, method in methods(table.num_rows).items():
        runs = [one_release(method, table, schema, truth) for _ in range(N_RUNS)]
        errors[name] = np.mean([cumulative(t, np.abs(e - t)) for t, e in runs], axis=0).tolist()
        points[name] = runs[0]
    n_selections = len(points["FRAPP"][0])
    print(f"{n_selections:,} selections; average error over those with a true count of at least")
    print(f"{'':22}" + "".join(f"{start:>9,}" for start in FROM))
    for name, averages in errors.items():
        print(f"{name:22}" + "".join(f"{average:9.1f}" for average in averages))
    print("FRAPP's error over it")
    ratios = {
        name: [f / a for f, a in zip(errors["FRAPP"], averages, strict=True)]
        for name, averages in errors.items()
    }
    for name, row in ratios.items():
        print(f"{name:22}" + "".join(f"{ratio:9.2f}" for ratio in row))
    RESULTS.mkdir(exist_ok=True)
    content = {"from": FROM, "average_error": errors, "frapp_over": ratios}
    (RESULTS / "alpha_beta_figures.json").write_text(json.dumps(content, indent=1) + "\n")
    draw(points)


if __name__ == "__main__":
    main()
