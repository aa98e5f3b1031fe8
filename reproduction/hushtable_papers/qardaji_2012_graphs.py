"""Figures 4 and 5 of the RPS paper: degree sequences of its four graphs against epsilon.

Run by ``hushtable reproduce qardaji-2012``; needs the graphs.

Figure 4 is the Kolmogorov-Smirnov distance, figure 5 the earth mover's distance W1 between degree
distributions (the paper prints the formula of W2 and writes W1). Panel (a) of the paper sets the
bound to the largest degree and panel (b) to n - 1. Both depend on the private graph, so a public
power of two and a privately chosen bound are included for comparison.

"printed" is the mechanism as the paper describes it. It has NO GUARANTEE: it charges counts as if
leaves were disjoint, with a sensitivity computed from the private graph (errata qardaji-2012-1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from hushtable.engine.edges import read_graph
from hushtable.engine.graph import Graph
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.degrees.hay import HayDegrees
from hushtable.privacy.noise.sources import SecureNoise
from hushtable_papers.data_sets import folder
from hushtable_papers.figure import Curve, Figure, Panel, Point
from hushtable_papers.repetitions import setting

GRAPHS = {
    "Caltech": ("fb100_Caltech36.edges.txt.gz", 128),
    "Georgetown": ("fb100_Georgetown15.edges.txt.gz", 256),
    "UNC": ("fb100_UNC28.edges.txt.gz", 256),
    "Enron": ("snap_email-Enron.edges.txt.gz", 256),
}
EPSILONS = setting(["0.01", "0.03", "0.1", "0.3", "1", "3", "10"], ["0.1", "1", "10"])
N_RUNS = setting(3, 2)
MEASURED = setting(list(GRAPHS), ["Caltech", "Georgetown"])
DEPTH = 15  # depth of the printed mechanism's tree

Histogram = np.ndarray  # numbers of nodes of degree 0, 1, ...; floats in an estimate
Method = Callable[[Graph, str], Histogram]


def ks(one: Histogram, two: Histogram) -> float:
    a, b = distribution_functions(one, two)
    return float(np.abs(a - b).max())


def w1(one: Histogram, two: Histogram) -> float:
    a, b = distribution_functions(one, two)
    return float(np.abs(a - b).sum())


def distribution_functions(one: Histogram, two: Histogram) -> tuple[np.ndarray, np.ndarray]:
    size = max(len(one), len(two))
    a, b = (np.cumsum(np.append(h, np.zeros(size - len(h)))) for h in (one, two))
    return a / max(a[-1], 1), b / max(b[-1], 1)


def ours(**parameters: object) -> Method:
    def run(graph: Graph, epsilon: str) -> Histogram:
        released = Degrees(epsilon=epsilon, **parameters).run(graph, SecureNoise())
        cumulative = released.tables["data"].column("nodes_up_to_degree").to_numpy()
        return np.diff(cumulative, prepend=0.0)

    return run


def hay(**parameters: object) -> Method:
    def run(graph: Graph, epsilon: str) -> Histogram:
        method = HayDegrees(epsilon=epsilon, n_nodes=graph.n_nodes, **parameters)
        return np.bincount(method.sequence(graph, SecureNoise()))

    return run


def printed(bound: int) -> Method:
    """Return the paper's mechanism as printed; it has no guarantee and is only for comparison."""

    def run(graph: Graph, epsilon_text: str) -> Histogram:
        epsilon, rng = float(epsilon_text), np.random.default_rng()
        histogram = np.bincount(graph.degrees(), minlength=bound + 1)
        up_to = np.concatenate(([0], np.cumsum(histogram)))
        n_nodes = graph.n_nodes
        regions = [(0, bound + 1)]
        for _ in range(DEPTH):
            cut = []
            for begin, end in regions:
                if end - begin == 1:
                    cut.append((begin, end))
                    continue
                left = up_to[begin + 1 : end] - up_to[begin]
                smaller = np.minimum(left, up_to[end] - up_to[begin] - left)
                weight = np.exp(epsilon / 2 / DEPTH * smaller / (2 * n_nodes + 1))
                place = begin + 1 + int(rng.choice(len(weight), p=weight / weight.sum()))
                cut += [(begin, place), (place, end)]
            regions = cut
        out = np.zeros(bound + 1)
        for begin, end in regions:
            # Nodes that may leave or enter the region if one degree drops by one, plus the node
            # itself. The noise is Cauchy noise.
            entering = histogram[end] if end <= bound else 0
            sensitivity = min(bound, max(histogram[begin], entering)) + 1
            noise = rng.standard_cauchy() * 6 * sensitivity / (epsilon / 2)
            out[begin] = max(up_to[end] - up_to[begin] + noise, 0)
        return out

    return run


def loaded(name: str) -> tuple[Graph, Graph]:
    """Read a graph twice: with a public list of nodes, as in the papers, and with edges only."""
    path = folder() / "graphs" / GRAPHS[name][0]
    edges_only = read_graph(path)
    return read_graph(path, nodes=edges_only.ids.to_pylist()), edges_only


def methods(name: str, graph: Graph, edges_only: Graph) -> dict[str, tuple[Method, Graph]]:
    """Return the methods to compare on a graph, by label."""
    bound = GRAPHS[name][1]
    largest, most = int(graph.degrees().max()), graph.n_nodes - 1
    return {
        "cumulative, public bound": (ours(max_degree=bound), graph),
        "cumulative, private bound (default)": (ours(), graph),
        "cumulative, largest degree (a)": (ours(max_degree=largest), graph),
        "cumulative, n - 1 (b)": (ours(max_degree=most), graph),
        "endpoints, public bound": (ours(max_degree=bound, population="endpoints"), edges_only),
        "tree of regions, public bound": (ours(max_degree=bound, mechanism="partition"), graph),
        "Hay, node, public bound": (hay(level="node", max_degree=bound), graph),
        "Hay, node, largest degree (a)": (hay(level="node", max_degree=largest), graph),
        "Hay, node, n - 1 (b)": (hay(level="node", max_degree=most), graph),
        "Hay, protects edges only": (hay(level="edge"), graph),
        "as printed, largest degree (a): NO GUARANTEE": (printed(largest), graph),
        "as printed, n - 1 (b): NO GUARANTEE": (printed(most), graph),
    }


@cache
def runs(name: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Measure both distances of every method for every epsilon."""
    graph, edges_only = loaded(name)
    truth = np.bincount(graph.degrees())
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for label, (method, given) in methods(name, graph, edges_only).items():
        found[label] = {}
        for epsilon in EPSILONS:
            made = [method(given, epsilon) for _ in range(N_RUNS)]
            found[label][epsilon] = [(ks(one, truth), w1(one, truth)) for one in made]
    return found


def distances(
    number: str, title: str, y_label: str, which: int, read: Sequence[Curve] = (), **axes: bool
) -> Figure:
    """Return the figure of one distance.

    Each graph has two panels: bounds that need no private data, and the bounds of the paper.
    """
    panels = []
    for name in MEASURED:
        bound = GRAPHS[name][1]
        curves = [
            Curve(
                label,
                [
                    Point.of_runs(float(epsilon), [run[which] for run in made])
                    for epsilon, made in points.items()
                ],
            )
            for label, points in runs(name).items()
        ]
        paper = [curve for curve in curves if "(a)" in curve.name or "(b)" in curve.name]
        panels += [
            Panel(f"{name}: public bound {bound}", [c for c in curves if c not in paper]),
            Panel(f"{name}: bounds of the paper", [*paper, *read]),
        ]
    return Figure(
        number, title, "epsilon", y_label, f"mean of {N_RUNS} runs, with one standard error",
        N_RUNS, panels, x_log=True, **axes,
    )  # fmt: skip


def figure_4() -> Figure:
    return distances("4", "Degrees: Kolmogorov-Smirnov distance", "KS distance", 0)


def figure_5() -> Figure:
    """Return the figure of W1.

    The paper's text states that for all graphs it is "close to 10" for epsilon 1 and above.
    """
    read = [Curve("paper, tree of regions", [Point.exact(at, 10) for at in (1, 3, 10)], True)]
    return distances("5", "Degrees: earth mover's distance", "W1", 1, read, y_log=True)


DATA_OF_FIGURES = {"4": "graphs", "5": "graphs"}
FIGURES = {"4": figure_4, "5": figure_5}
