"""Figures 2 and 3 of Rastogi, Suciu and Hong: estimates against truth, and errors against FRAPP.

Run by ``hushtable reproduce rastogi-2007``; needs Adult.

As in the paper: the 30,162 complete rows of Adult's training part, nine attributes with their
active domains (m = 648,023,040), d = 10 n/m, gamma = 0.2, all selections of one, two or three
attributes by single values. Unlike in the paper, duplicate rows are removed first for both methods,
and n is the number of distinct tuples.

As in the paper, the active domains come from the data. A release must take them from the schema.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from hushtable.methods import AlphaBeta, Frapp, Method
from hushtable.methods.alpha_beta.frapp import same_privacy_retention
from hushtable.privacy.bounded_adversary import odds_limit
from hushtable.privacy.noise.noise import Noise
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.schema.codes import to_codes
from hushtable_papers.data_sets import folder
from hushtable_papers.figure import Curve, Figure, Panel, Point
from hushtable_papers.repetitions import setting

ATTRIBUTES = (
    "age", "workclass", "education", "marital-status", "occupation", "race", "sex",
    "native-country", "income",
)  # fmt: skip
N_PAPER, N_DOMAIN, FACTOR, GAMMA = 30_162, 648_023_040, 10, Fraction(1, 5)
N_RUNS = setting(10, 3)
FROM = (1, 10, 30, 100, 300, 1000, 3000)
BINS = (0, 1, 100, 250, 500, 750, 1000, 1500, 2000, 3000, 4000)
RUNS = f"mean of {N_RUNS} releases, with its standard error"
PRINTED_AT = 1000
"""Count at which the paper's errors 120 and 520 are drawn; the paper does not state the count."""

SHOWN = ("FRAPP", "minimal beta", "printed beta", "exclusive (default)")
HALF = Fraction(1, 2)


def adult_of_the_paper(data: Path) -> tuple[pa.Table, Schema]:
    """Read the distinct tuples of the training part and a schema of active domains."""
    options = pa_csv.ConvertOptions(null_values=["?"], strings_can_be_null=True)
    table = pa_csv.read_csv(data / "adult" / "adult_all.csv.gz", convert_options=options)
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
    """Return the methods to compare, by name."""
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
    """Apply the estimator's formula to many counts at once; `one_release` checks one of them."""
    if isinstance(method, Frapp):
        g, n_rows = float(method.retention), release.table().num_rows
        return (seen - n_rows * (1 - g) * domain / N_DOMAIN) / g
    assert isinstance(method, AlphaBeta)
    law = method.plan(release.schema).noise
    return (seen - float(law.beta) * domain) / float(law.alpha)


def one_release(
    method: Method,
    table: pa.Table,
    schema: Schema,
    truth: list[NDArray[np.int64]],
    noise: Noise | None = None,
) -> tuple[NDArray, NDArray]:
    """Publish once, and return the true count and the estimate of every selection."""
    with tempfile.TemporaryDirectory() as scratch:
        release = publish(table, schema, method, out=Path(scratch) / "r", noise=noise or "secure")
        view = codes_of(release.table(), schema)
        true, seen, domain = all_selections(truth, view, schema.domain.shape)
        found = estimates(method, release, seen, domain)
        male = sum(schema.domain.shape[:6]) + schema.attributes["sex"].values.index("Male")
        assert abs(release.count("sex = 'Male'").value - found[male]) < 1e-6
    return true, found


@cache
def releases() -> dict[str, list[tuple[NDArray, NDArray]]]:
    """Publish several times with every method."""
    table, schema = adult_of_the_paper(folder())
    truth = codes_of(table, schema)
    print(f"{table.num_rows:,} distinct tuples of {N_PAPER:,} rows")
    return {
        name: [one_release(method, table, schema, truth) for _ in range(N_RUNS)]
        for name, method in methods(table.num_rows).items()
    }


def average_error(true: NDArray, estimate: NDArray, start: int) -> float:
    """Return the mean error over all selections with a minimum number of tuples."""
    asked = true >= start
    return float(np.abs(estimate - true)[asked].mean())


def figure_2() -> Figure:
    """Group the estimates by true count: median, and 5% and 95% quantiles."""
    panels = []
    for name in SHOWN:
        true, estimate = (np.concatenate(part) for part in zip(*releases()[name], strict=True))
        points = []
        for low, high in pairwise(BINS):
            inside = (true >= low) & (true < high)
            points.append(
                Point(float(true[inside].mean()), *np.quantile(estimate[inside], (0.5, 0.05, 0.95)))
            )
        panels.append(Panel(name, [Curve("estimate", points)]))
    return Figure(
        "2", "Estimates against true counts", "true count", "estimate",
        f"median over all selections with about this count, bars hold 90 % of them; "
        f"{N_RUNS} releases", N_RUNS, panels, diagonal=True,
    )  # fmt: skip


def errors() -> dict[str, NDArray]:
    """Return the mean errors of each method, one row for each release."""
    return {
        name: np.array([[average_error(*run, start) for start in FROM] for run in made])
        for name, made in releases().items()
    }


def figure_3() -> Figure:
    """Plot the mean error over selections with at least a given count."""
    curves = [
        Curve(name, [Point.of_runs(at, found[:, n]) for n, at in enumerate(FROM)])
        for name, found in errors().items()
    ]
    curves += [
        Curve("paper, FRAPP", [Point.exact(PRINTED_AT, 520)], printed=True),
        Curve("paper, alpha-beta", [Point.exact(PRINTED_AT, 120)], printed=True),
    ]
    return Figure(
        "3", "Average error over all selections with at least so many tuples",
        "true count at least", "average error", RUNS, N_RUNS, [Panel("average error", curves)],
        x_log=True, y_log=True,
    )  # fmt: skip


def figure_3_ratio() -> Figure:
    """Plot the ratio of FRAPP's mean error to that of each method."""
    found = errors()
    curves = [
        Curve(
            name,
            [Point.of_runs(at, found["FRAPP"][:, n] / own[:, n]) for n, at in enumerate(FROM)],
        )
        for name, own in found.items()
        if name != "FRAPP"
    ]
    return Figure(
        "3-ratio", "FRAPP's average error over that of alpha-beta", "true count at least",
        "ratio of errors", RUNS, N_RUNS,
        [Panel("FRAPP over it", curves, {"paper, observed": 4.3, "paper, theory": 4.5})],
        x_log=True,
    )  # fmt: skip


DATA_OF_FIGURES = dict.fromkeys(("2", "3", "3-ratio"), "adult")
FIGURES = {"2": figure_2, "3": figure_3, "3-ratio": figure_3_ratio}
