"""Figures 4 and 5 of the RPS paper: degree sequences of Caltech, UNC and Enron against epsilon.

Run as ``python benchmarks/papers/rps_figures_4_5.py [--quick]``; needs the graphs under
``$HUSHTABLE_DATA`` or ``../shared/data``. Writes a JSON file and a plot to ``benchmarks/results``.

Figure 4 is the Kolmogorov-Smirnov distance, figure 5 the earth mover's distance W1 between degree
distributions (the paper prints the formula of W2 and speaks of W1). 5 runs each, mean and standard
error. Panel (a) of the paper sets the bound to the largest degree and panel (b) to n - 1; neither
is a bound one may take from the data, so a public power of two and a privately chosen bound stand
beside them.

"printed" is the paper's mechanism as it can be read: NO GUARANTEE. Its counts are charged as if
leaves were disjoint, with a sensitivity taken from the graph itself (errata 001-1).
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hushtable.engine.edges import read_graph
from hushtable.engine.graph import Graph
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.degrees.hay import HayDegrees
from hushtable.privacy.noise import SecureNoise

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HUSHTABLE_DATA", ROOT.parent / "shared" / "data")) / "graphs"
RESULTS = ROOT / "benchmarks" / "results"
GRAPHS = {
    "Caltech": ("fb100_Caltech36.edges.txt.gz", 128),
    "UNC": ("fb100_UNC28.edges.txt.gz", 256),
    "Enron": ("snap_email-Enron.edges.txt.gz", 256),
}
EPSILONS = ["0.01", "0.03", "0.1", "0.3", "1", "3", "10"]
N_RUNS = 5
DEPTH = 15  # of the printed mechanism

Histogram = np.ndarray  # nodes of degree 0, 1, ...; floats where it is an estimate
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
    """Run the paper's tree as printed; no guarantee, for the comparison alone."""

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
            # Who may leave or enter when one degree drops by one, and the node itself; Cauchy.
            entering = histogram[end] if end <= bound else 0
            sensitivity = min(bound, max(histogram[begin], entering)) + 1
            noise = rng.standard_cauchy() * 6 * sensitivity / (epsilon / 2)
            out[begin] = max(up_to[end] - up_to[begin] + noise, 0)
        return out

    return run


def measure(names: list[str], epsilons: list[str]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in names:
        file, bound = GRAPHS[name]
        nodes = read_graph(DATA / file).ids.to_pylist()  # the papers' graphs have no other nodes
        graph = read_graph(DATA / file, nodes=nodes)
        edges_only = read_graph(DATA / file)
        truth = np.bincount(graph.degrees())
        largest, most = int(graph.degrees().max()), graph.n_nodes - 1
        methods: dict[str, tuple[Method, Graph]] = {
            f"cumulative, public bound {bound}": (ours(max_degree=bound), graph),
            "cumulative, private bound": (ours(), graph),
            f"isotonic alone, public bound {bound}": (
                ours(max_degree=bound, fit="isotonic", tail="bound"), graph,
            ),
            f"partition, public bound {bound}": (
                ours(max_degree=bound, mechanism="partition"), graph,
            ),
            f"endpoints, public bound {bound}": (
                ours(max_degree=bound, population="endpoints"), edges_only,
            ),
            "cumulative, largest degree (4a, 5a)": (ours(max_degree=largest), graph),
            "cumulative, n - 1 (4b, 5b)": (ours(max_degree=most), graph),
            f"Hay node, public bound {bound}": (hay(level="node", max_degree=bound), graph),
            "Hay node, largest degree (4a, 5a)": (hay(level="node", max_degree=largest), graph),
            "Hay node, n - 1 (4b, 5b)": (hay(level="node", max_degree=most), graph),
            "Hay edge (protects edges only)": (hay(level="edge"), graph),
            "printed, largest degree: NO GUARANTEE": (printed(largest), graph),
            "printed, n - 1: NO GUARANTEE": (printed(most), graph),
        }  # fmt: skip
        for label, (method, input_graph) in methods.items():
            for epsilon in epsilons:
                found = [method(input_graph, epsilon) for _ in range(N_RUNS)]
                row: dict[str, object] = {"graph": name, "method": label, "epsilon": float(epsilon)}
                for distance in (ks, w1):
                    values = np.array([distance(h, truth) for h in found])
                    row[distance.__name__] = float(values.mean())
                    row[f"{distance.__name__}_se"] = float(values.std(ddof=1) / N_RUNS**0.5)
                rows.append(row)
                if epsilon == "1":
                    print(
                        f"{name:8} {label:42} KS {row['ks']:.4f} +- {row['ks_se']:.4f}  "
                        f"W1 {row['w1']:8.2f} +- {row['w1_se']:.2f}",
                        flush=True,
                    )
    return rows


def draw(rows: list[dict[str, object]], path: Path) -> None:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(str(row["graph"]) for row in rows))
    figure = Figure(figsize=(5 * len(names), 9), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False)
    for column, name in enumerate(names):
        for line, distance in enumerate(("ks", "w1")):
            ax = axes[line][column]
            labels = dict.fromkeys(str(r["method"]) for r in rows if r["graph"] == name)
            for number, label in enumerate(labels):
                chosen = [r for r in rows if r["graph"] == name and r["method"] == label]
                ax.errorbar(
                    [r["epsilon"] for r in chosen], [r[distance] for r in chosen],
                    [r[f"{distance}_se"] for r in chosen], label=label, marker="o", markersize=3,
                    color=f"C{number % 10}",
                    linestyle=":" if "NO GUARANTEE" in label else "--" if "Hay" in label else "-",
                )  # fmt: skip
            ax.set(
                xscale="log",
                title=name,
                xlabel="epsilon",
                ylabel="KS distance" if distance == "ks" else "W1 (not W2)",
            )
            if distance == "w1":
                ax.set_yscale("log")
            ax.grid(alpha=0.25)
        axes[1][column].legend(fontsize=6, frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="Caltech alone, three epsilons")
    quick = parser.parse_args().quick
    if not DATA.is_dir():
        print("no graphs: set HUSHTABLE_DATA to the folder that holds them")
        return
    rows = measure(
        ["Caltech"] if quick else list(GRAPHS), ["0.1", "1", "10"] if quick else EPSILONS
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "rps_figures_4_5.json").write_text(json.dumps(rows, indent=1))
    draw(rows, RESULTS / "rps_figures_4_5.png")
    print(f"wrote {RESULTS / 'rps_figures_4_5.json'} and .png")


if __name__ == "__main__":
    main()
