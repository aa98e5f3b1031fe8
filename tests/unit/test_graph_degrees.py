"""The method degrees: parameters, budget, release, answers, synthetic graphs, command line."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

from hushtable.cli.app import app
from hushtable.engine.edges import read_graph
from hushtable.engine.graph import Graph
from hushtable.errors import BudgetExceeded, DataError, HushtableError, ParameterError, ReleaseError
from hushtable.graph.generate import (
    configuration,
    exact,
    generate_graph,
    is_graphical,
    plot_degrees,
)
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.degrees.distribution_fit import (
    as_projected,
    fit_counts,
    fit_regions,
    undo_projection,
)
from hushtable.methods.degrees.hay import HayDegrees
from hushtable.privacy.guarantee import PureDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.publishing.publish import publish_graph
from hushtable.release.release import Release
from seeds import shifted

VARIANTS: list[dict[str, Any]] = [
    {"mechanism": mechanism, "population": population, "max_degree": bound}
    for mechanism in ("cumulative", "partition")
    for population in ("listed", "endpoints")
    for bound in (1, 2, 30, "private")
]
every_variant = pytest.mark.parametrize(
    "variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values()))
)


@pytest.fixture(scope="module")
def edges() -> list[tuple[int, int]]:
    graph = nx.barabasi_albert_graph(2000, 3, seed=shifted(5))
    return [(int(a), int(b)) for a, b in graph.edges]


@pytest.fixture(scope="module")
def release(edges: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory) -> Release:
    out = tmp_path_factory.mktemp("degrees") / "release"
    method = Degrees(epsilon=2, max_degree=64)
    return publish_graph(edges, method, nodes=range(2000), out=out, noise=SeededNoise(shifted(11)))


# --- parameters and budget ----------------------------------------------------------------------


@every_variant
def test_the_parts_add_up_to_the_promise(variant: dict[str, Any]) -> None:
    method = Degrees(epsilon="1/3", **variant)
    (promise,) = method.guarantee()
    assert isinstance(promise, PureDP)
    assert (promise.epsilon, promise.unit.kind, promise.neighbors) == (
        Fraction(1, 3), "node", "add-remove",
    )  # fmt: skip
    forecast = method.forecast(1000)
    assert sum(forecast.split.values()) == promise.epsilon
    assert ("number of nodes" in forecast.split) == (variant["population"] == "listed")
    assert ("splits" in forecast.split) == (variant["mechanism"] == "partition")
    assert ("choice of the bound" in forecast.split) == (variant["max_degree"] == "private")
    assert forecast.lines
    again = Degrees(**json.loads(json.dumps(method.parameters())))
    assert again == method
    assert Degrees(epsilon=1, max_degree="64").max_degree == 64


def test_noise_is_the_sensitivity_over_what_is_spent_on_it() -> None:
    plain = Degrees(epsilon=1, max_degree=10, n_nodes_share=Fraction(1, 11))
    # With this share, C_0 to C_theta are one vector of sensitivity theta + 1.
    assert plain.counts_scale(10) == 11
    assert plain.forecast().split["number of nodes"] == Fraction(1, 11)
    ends = Degrees(epsilon=1, max_degree=10, population="endpoints")
    assert ends.counts_scale(10) == 20
    tree = Degrees(epsilon=1, max_degree=10, mechanism="partition", population="endpoints")
    assert tree.counts_scale(10) == 42
    private = Degrees(epsilon=1, population="endpoints", bound_share="1/5")
    assert private.counts_scale(8) == 20
    assert private.bounds == [4, 1024]


class AskedNoise(SeededNoise):
    """Noise that records the calibration of choices."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[dict[str, Any]] = []

    def choose(self, scores: Any, **how: Any) -> int:
        self.asked.append(how)
        return super().choose(scores, **how)


def test_splits_pay_for_all_that_one_node_moves(edges: list[tuple[int, int]]) -> None:
    """qardaji-2012-5: a split has weight exp(e min / (2 theta + 1)), e a level's budget."""
    method = Degrees(epsilon=1, max_degree=8, mechanism="partition")
    noise = AskedNoise(3)
    method.plan().run(read_graph(edges, nodes=range(2000)), noise)
    assert len(noise.asked) > 2
    level = method.forecast().split["splits"] / method.n_levels
    for how in noise.asked:
        assert how["epsilon"] / how["sensitivity"] == level / 17
        assert how["monotone"]
        assert how["rule"] == "exponential"  # the bound is on the range of scores


def test_all_problems_are_reported_at_once() -> None:
    wrong: dict[str, Any] = {
        "epsilon": -1, "max_degree": "many", "mechanism": "x", "population": "y", "fit": "z",
        "tail": "t", "n_nodes_share": 1, "bound_share": 0, "largest_bound": 2, "n_levels": 0,
    }  # fmt: skip
    with pytest.raises(ParameterError) as caught:
        Degrees(**wrong)
    for name in wrong:
        assert any(name in problem for problem in caught.value.problems), name
    with pytest.raises(ParameterError, match="leave no epsilon"):
        Degrees(epsilon=1, n_nodes_share="1/2", bound_share="1/2")
    for bad in (True, 0, 2**21, 1.5):
        with pytest.raises(ParameterError, match="max_degree"):
            Degrees(epsilon=1, max_degree=bad)  # type: ignore[arg-type]


def test_the_list_of_nodes_must_fit_the_population(tmp_path: Path) -> None:
    listed, ends = Degrees(epsilon=1), Degrees(epsilon=1, population="endpoints")
    with pytest.raises(ParameterError, match="no list of nodes"):
        publish_graph([(1, 2)], listed, out=tmp_path / "a")
    with pytest.raises(ParameterError, match="list of nodes is given"):
        publish_graph([(1, 2)], ends, nodes=[1, 2], out=tmp_path / "a")
    with pytest.raises(ParameterError, match="no list of nodes"):
        listed.run(read_graph([(1, 2)]), SecureNoise())


# --- the release --------------------------------------------------------------------------------


@every_variant
@pytest.mark.parametrize("size", [0, 1, 3, 2000])
def test_every_variant_publishes_every_size(
    variant: dict[str, Any], size: int, edges: list[tuple[int, int]], tmp_path: Path
) -> None:
    method = Degrees(epsilon=1, **variant)
    nodes = range(size) if variant["population"] == "listed" else None
    some = [(a, b) for a, b in edges if max(a, b) < size]
    release = publish_graph(some, method, nodes=nodes, out=tmp_path / "out")
    found = Release.load(tmp_path / "out")
    assert found.statement.parameters == method.parameters()
    assert set(found.statement.tables) == {"data", "noisy"}
    table = found.table()
    histogram = table.column("nodes").to_numpy()
    assert (histogram >= 0).all()
    assert (np.diff(table.column("nodes_up_to_degree").to_numpy()) >= 0).all()
    assert (table.column("privacy_std").to_numpy() >= 0).all()
    assert found.frame().num_rows == histogram.sum()
    estimate = release.count("degree >= 2")
    assert 0 <= estimate.low <= estimate.value <= estimate.high
    assert release.count("FALSE").high == 0
    if variant["population"] == "endpoints":
        assert histogram[0] == 0
    bound = found.statement.estimator["max_degree"]
    assert method.bounds[0] <= bound <= method.bounds[1]
    assert "one node with all its edges" in (tmp_path / "out" / "STATEMENT.md").read_text()
    if variant["mechanism"] == "cumulative":
        assert found.table("noisy").num_rows == bound


def test_spending_is_recorded_before_edges_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hushtable.privacy.guarantee import Unit

    ledger = Ledger.create(tmp_path / "ledger", epsilon=1, unit=Unit(kind="node"))
    seen = []

    def read(*args: object, **kwargs: object) -> None:
        seen.append([entry.status for entry in ledger.entries()])
        raise DataError("stop here")

    monkeypatch.setattr("hushtable.engine.edges.read_graph", read)
    method = Degrees(epsilon="3/4", population="endpoints")
    with pytest.raises(DataError):
        publish_graph([(1, 2)], method, out=tmp_path / "out", ledger=ledger)
    assert seen == [["charged"]]
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    with pytest.raises(BudgetExceeded):
        publish_graph([(1, 2)], method, out=tmp_path / "out", ledger=ledger)
    for broken in (tmp_path / "absent.txt", 7):
        fresh = Ledger.create(tmp_path / f"l{len(str(broken))}", epsilon=1, unit=Unit(kind="node"))
        with pytest.raises(DataError):
            publish_graph(broken, method, out=tmp_path / "out", ledger=fresh)
        assert [e.status for e in fresh.entries()] in ([], ["charged"])


def test_a_seeded_release_repeats_and_says_so(edges: list[tuple[int, int]], tmp_path: Path) -> None:
    method = Degrees(epsilon=1, population="endpoints")
    one = publish_graph(edges, method, out=tmp_path / "a", noise=SeededNoise(shifted(3)))
    two = publish_graph(edges[::-1], method, out=tmp_path / "b", noise=SeededNoise(shifted(3)))
    assert one.statement.guarantee == "none (seeded)"
    assert one.table("noisy").equals(two.table("noisy"))
    assert one.table().equals(two.table())


def test_answers_come_with_honest_intervals(release: Release, edges: list[tuple[int, int]]) -> None:
    degrees = read_graph(edges, nodes=range(2000)).degrees()
    for where, truth in {
        "degree >= 5": (degrees >= 5).sum(),
        "degree BETWEEN 4 AND 9": ((degrees >= 4) & (degrees <= 9)).sum(),
        "degree = 3": (degrees == 3).sum(),
        "TRUE": 2000,
        "degree * 2 < 9 OR degree > 100": ((degrees * 2 < 9) | (degrees > 100)).sum(),
    }.items():
        estimate = release.count(where)
        width = max(estimate.high - estimate.low, 4)  # about four standard deviations
        assert estimate.low - width <= truth <= estimate.high + width, where
    exponent = 1 + 2000 / np.log(degrees / 0.5).sum()
    assert release.statement.estimator["power_law_exponent"] == pytest.approx(exponent, rel=0.1)
    assert release.schema.unit.kind == "node"


# --- fitting ------------------------------------------------------------------------------------


def test_without_noise_the_fit_is_the_truth() -> None:
    degrees = np.random.default_rng(shifted(3)).geometric(0.1, 5000).clip(max=40)
    up_to = np.cumsum(np.bincount(degrees, minlength=41)).astype(float)
    for smooth in (True, False):
        survival = fit_counts(
            up_to[:-1], variance=1e-6, n_nodes=5000.0, n_nodes_variance=1e-6, smooth=smooth
        )
        found = as_projected(survival)
        assert found.cumulative == pytest.approx(up_to, abs=0.01)
        assert (found.histogram == np.bincount(degrees, minlength=41)).all()
        assert sorted(found.sequence()) == sorted(degrees)
    from_ = (degrees[:, None] >= np.arange(1, 41)).sum(0).astype(float)
    visible = as_projected(fit_counts(-from_, variance=1e-6))
    assert visible.at_least[1:] == pytest.approx(from_, abs=0.01)
    starts = np.arange(41)
    regions = fit_regions(
        np.bincount(degrees, minlength=41).astype(float), starts, max_degree=40, variance=1e-6,
        n_nodes=5000.0, n_nodes_variance=1e-6,
    )  # fmt: skip
    assert as_projected(regions).cumulative == pytest.approx(up_to, abs=0.01)


def test_error_bars_of_single_counts_agree_with_those_of_the_table() -> None:
    rng = np.random.default_rng(shifted(8))
    up_to = np.cumsum(np.bincount(rng.geometric(0.05, 3000).clip(max=32), minlength=33))
    noisy = up_to[:-1] + rng.laplace(0, 30, 32)
    survival = fit_counts(noisy, variance=1800.0, n_nodes=3010.0, n_nodes_variance=200.0)
    found = undo_projection(survival)
    assert found.acceptance < 1
    noise, model = found.cumulative_stds()
    for degree in (0, 1, 7, 31, 40):
        mask = np.arange(len(found.at_least)) <= degree
        value, one, two = found.count(mask)
        assert value == pytest.approx(found.cumulative[degree])
        assert (one, two) == pytest.approx((noise[degree], model[degree]))


def test_the_model_puts_back_what_the_bound_took() -> None:
    from hushtable.engine.graph import OrderedEdges

    degrees = np.random.default_rng(shifted(1)).gamma(2.0, 20.0, 6000).astype(int) + 1
    graph = read_graph(
        configuration(np.sort(degrees)[::-1], SeededNoise(shifted(1))), nodes=range(6000)
    )
    truth = np.cumsum(np.bincount(graph.degrees(), minlength=400)) / 6000
    for bound in (32, 64):
        bounded = OrderedEdges(graph, key=4).degrees(bound)
        up_to = np.cumsum(np.bincount(bounded, minlength=bound + 1)).astype(float)
        survival = fit_counts(up_to[:-1], variance=1.0, n_nodes=6000.0, n_nodes_variance=1.0)
        before = _ks(as_projected(survival).cumulative, truth)
        found = undo_projection(survival)
        assert before > 0.15
        assert _ks(found.cumulative, truth) < before / 4
        kept = bounded[bounded < bound].sum() / graph.degrees()[bounded < bound].sum()
        assert found.acceptance == pytest.approx(kept, rel=0.12)
    loose = OrderedEdges(graph, key=4).degrees(500)
    up_to = np.cumsum(np.bincount(loose, minlength=501)).astype(float)
    survival = fit_counts(up_to[:-1], variance=1.0, n_nodes=6000.0, n_nodes_variance=1.0)
    assert undo_projection(survival).acceptance == 1


def _ks(cumulative: np.ndarray, truth: np.ndarray) -> float:
    size = max(len(cumulative), len(truth))
    one = np.append(cumulative / cumulative[-1], np.ones(size - len(cumulative)))
    two = np.append(truth, np.ones(size - len(truth)))
    return float(np.abs(one - two).max())


# --- synthetic graphs ---------------------------------------------------------------------------


def test_exact_graphs_have_exactly_their_degrees() -> None:
    rng = np.random.default_rng(shifted(2))
    n_graphical = 0
    for _ in range(300):
        degrees = np.sort(rng.integers(0, rng.integers(1, 9), rng.integers(1, 12)))[::-1]
        assert is_graphical(degrees) == nx.is_graphical(degrees.tolist())
        if degrees.sum() % 2 == 0 and is_graphical(degrees):
            n_graphical += 1
            pairs = exact(degrees)
            assert np.bincount(pairs.ravel(), minlength=len(degrees)).tolist() == degrees.tolist()
            assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs)
            assert (pairs[:, 0] < pairs[:, 1]).all()
    assert n_graphical > 50
    large = np.sort(rng.zipf(2.0, 20000).clip(max=500))[::-1]
    large[-1] += large.sum() % 2
    large = np.sort(large)[::-1]
    counted = np.bincount(exact(large).ravel(), minlength=len(large))
    assert (counted == large).all()


def test_an_odd_sum_loses_one_end() -> None:
    pairs = exact(np.array([2, 1, 1, 1]))
    assert np.bincount(pairs.ravel(), minlength=4).tolist() == [2, 1, 1, 0]
    assert len(exact(np.array([0, 0]))) == 0


def test_configuration_graphs_are_simple_and_close() -> None:
    degrees = np.random.default_rng(shifted(4)).poisson(8, 3000)
    pairs = configuration(degrees, SecureNoise())
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs)
    counted = np.bincount(pairs.ravel(), minlength=3000)
    assert (counted <= degrees).all()
    assert counted.sum() > 0.98 * degrees.sum()
    ends = Counter(map(tuple, configuration(np.array([1, 1, 1, 1]), SecureNoise()).tolist()))
    assert sum(ends.values()) == 2


def test_a_graph_is_made_from_a_release(release: Release) -> None:
    wanted = np.sort(release.frame().column("degree").to_numpy())[::-1]
    made = generate_graph(release)
    counted = np.bincount(np.concatenate([made["source"], made["target"]]), minlength=len(wanted))
    assert (counted <= wanted).all()
    same = generate_graph(release, noise=SeededNoise(shifted(1)))
    assert same.equals(generate_graph(release, noise=SeededNoise(shifted(1))))
    with pytest.raises(ParameterError, match="model"):
        generate_graph(release, model="x")  # type: ignore[arg-type]


# --- the baseline -------------------------------------------------------------------------------


def test_hay_gives_a_falling_sequence_of_public_length(edges: list[tuple[int, int]]) -> None:
    graph = read_graph(edges)
    for n_nodes in (1500, 2000, 2500):
        for level, bound in (("node", 50), ("edge", None)):
            method = HayDegrees(epsilon=1, level=level, n_nodes=n_nodes, max_degree=bound)  # type: ignore[arg-type]
            found = method.sequence(graph, SecureNoise())
            assert len(found) == n_nodes
            assert (np.diff(found) <= 0).all()
            assert found.min() >= 0
            assert found.max() <= (bound or n_nodes - 1)
    edge = HayDegrees(epsilon=1, level="edge", n_nodes=2000)
    assert edge.guarantee()[0].unit.kind == "row"  # type: ignore[attr-defined]
    with pytest.raises(ParameterError) as caught:
        HayDegrees(epsilon=0, level="node", n_nodes=0)
    assert len(caught.value.problems) == 3


def test_hay_changes_by_at_most_its_sensitivity() -> None:
    from hushtable.engine.graph import OrderedEdges

    rng = np.random.default_rng(shifted(6))
    worst = 0
    for _ in range(200):
        pairs = rng.integers(0, 9, (20, 2))
        graph = read_graph(pairs, nodes=range(9))
        node = int(rng.integers(9))
        sequences = []
        for g in (graph, graph.without(node)):
            falling = np.sort(OrderedEdges(g, key=1).degrees(3))[::-1]
            sequences.append(np.append(falling, np.zeros(9 - len(falling), int)))
        worst = max(worst, int(np.abs(sequences[0] - sequences[1]).sum()))
    assert 3 <= worst <= 6


# --- command line and plot ----------------------------------------------------------------------


def test_the_command_line_publishes_draws_and_generates(
    edges: list[tuple[int, int]], tmp_path: Path
) -> None:
    (tmp_path / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in edges))
    (tmp_path / "nodes.txt").write_text("".join(f"{a}\n" for a in range(2000)))
    arguments = [
        "graph", "publish", str(tmp_path / "edges.txt"), "--nodes", str(tmp_path / "nodes.txt"),
        "--epsilon", "1", "--max-degree", "32", "--out", str(tmp_path / "out"), "--plot",
        str(tmp_path / "plot.svg"), "--json",
    ]  # fmt: skip
    run = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert run.exit_code == 0
    document = json.loads(run.stdout)
    assert document["method"] == "degrees"
    assert document["parameters"]["population"] == "listed"
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    for name in ("made.txt", "made.csv", "made.parquet"):
        run = CliRunner().invoke(
            app, ["graph", "generate", str(tmp_path / "out"), "--out", str(tmp_path / name)]
        )
        assert run.exit_code == 0
        assert read_graph(tmp_path / name).n_edges > 1000
    with pytest.raises(HushtableError, match="exists"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_plot_with_private_degrees_says_so(release: Release, tmp_path: Path) -> None:
    private = np.array([1, 2, 3, 3, 9])
    plot_degrees(release, tmp_path / "a.svg")
    plot_degrees(release, tmp_path / "b.svg", original=private)
    assert "internal" not in (tmp_path / "a.svg").read_text()
    assert "internal" in (tmp_path / "b.svg").read_text()
    with pytest.raises(ParameterError, match=r"must end in \.svg"):
        plot_degrees(release, tmp_path / "c.png")


def test_only_degrees_can_be_generated_from(release: Release) -> None:
    other = release.statement.model_copy(update={"estimator": {"kind": "cells"}, "method": "x"})
    with pytest.raises(ReleaseError, match="'degrees'"):
        generate_graph(Release(release.folder, other))


def test_a_graph_knows_itself_without_a_node() -> None:
    graph = read_graph([("a", "b"), ("b", "c"), ("c", "d")], nodes=list("abcde"))
    assert isinstance(graph, Graph)
    less = graph.without(1)
    assert less.ids.to_pylist() == ["a", "c", "d", "e"]
    assert less.degrees().tolist() == [0, 1, 1, 0]
