"""Example of degrees: publish a graph's degrees, query them, and generate a synthetic graph.

Run it with ``python examples/degrees.py``; it works on a generated graph in a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from hushtable.graph.generate import configuration, generate_graph
from hushtable.methods.degrees.degrees import Degrees
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish_graph
from hushtable.release.release import Release

N_NODES = 5000


def main() -> None:
    """Generate a graph, plan, publish, query, and generate a synthetic graph."""
    # The private graph of this example: people with 1 to some hundred contacts.
    contacts = np.random.default_rng(7).lognormal(2.5, 0.9, N_NODES).astype(np.int64) + 1
    edges = configuration(contacts, SeededNoise(7))
    members = np.arange(N_NODES)  # the list of all nodes, including those without contacts

    method = Degrees(epsilon=1, max_degree=64)  # a public bound, not taken from the graph
    print("The promise, before any edge is read:")
    for promise in method.guarantee():
        print(" ", promise.explain())
    print("What to expect for about 5,000 nodes:")
    for name, figure in method.forecast(5000).lines.items():
        print(f"  {name}: {figure:.4g}" if isinstance(figure, float) else f"  {name}: {figure}")

    with tempfile.TemporaryDirectory() as folder:
        publish_graph(edges, method, nodes=members, name="contacts", out=Path(folder) / "release")
        release = Release.load(Path(folder) / "release")  # an analyst has only this folder
        for where in ("degree >= 1", "degree BETWEEN 10 AND 19", "degree >= 50"):
            print(f"nodes with {where}: {release.count(where)}")
        exponent = release.statement.estimator["power_law_exponent"]
        print(f"exponent of a power law: {exponent:.2f}")
        synthetic = generate_graph(release)
        print(f"a synthetic graph: {synthetic.num_rows:,} edges; the private one: {len(edges):,}")


if __name__ == "__main__":
    main()
