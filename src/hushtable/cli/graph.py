"""``hushtable graph``: publish statistics of a private graph, and generate synthetic graphs.

``graph publish`` publishes degrees; any other graph method NAME is ``graph publish-NAME``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import hushtable as ht
from hushtable.cli.ending import Publishing
from hushtable.cli.lazy import as_command, lazy_group
from hushtable.cli.options import (
    AsJson,
    NoiseName,
    OptionDefault,
    PayingOptions,
    with_method_options,
)
from hushtable.cli.publish import show_published
from hushtable.cli.screen import console, tell
from hushtable.files.progress import silent
from hushtable.files.writing import require_new

if TYPE_CHECKING:
    from hushtable.methods.base import GraphMethod

FIRST = "degrees"
"""The default method."""


POPULATION = OptionDefault(
    "listed with --nodes, else endpoints",
    lambda own: "listed" if own["nodes"] else "endpoints",
)


def _publish_command(kind: type[GraphMethod]) -> Callable[..., None]:
    @with_method_options(kind, otherwise={"population": POPULATION})
    def publish(
        method: Any,
        edges: Path,
        *,
        out: Path,
        nodes: Path | None = None,
        source: str = "source",
        target: str = "target",
        name: str = "graph",
        pays: PayingOptions,
        noise: NoiseName = "secure",
        plot: Path | None = None,
        as_json: AsJson = False,
    ) -> None:
        """Publish degrees of a private graph.

        Parameters
        ----------
        edges : EDGES
            Edge list: .parquet, .csv with a header, or text with two IDs per line; may be
            compressed (.gz).
        nodes
            List of all nodes, including those without edges.
        source
            Column of the first node.
        target
            Column of the second node.
        name
            Name of the release.
        plot
            Draw private and published degrees to a new SVG file (internal).
        """
        if plot is not None:
            require_new(plot, ".svg")
        with Publishing() as publishing:
            release = ht.publish_graph(
                edges,
                method,
                out=out,
                nodes=nodes,
                columns=(source, target),
                name=name,
                noise=noise,
                progress=publishing.heard(silent),
                **pays.paying(),
            )
            if plot is not None:
                from hushtable.graph.generate import plot_degrees  # noqa: PLC0415 - slow to import

                private = ht.read_graph(edges, nodes=nodes, columns=(source, target))
                plot_degrees(release, plot, original=private.degrees())
            show_published(release, as_json=as_json)
            if plot is not None and not as_json:
                console.print(
                    f"Drew {plot}. Internal: it shows the private graph; the promise does not "
                    "cover it."
                )

    return publish


def generate(
    release: Path,
    *,
    out: Path,
    model: Literal["configuration", "exact"] = "configuration",
    as_json: AsJson = False,
) -> None:
    """Generate a synthetic graph from a release and write its edge list.

    Parameters
    ----------
    out
        New .txt, .csv or .parquet file.
    model
        Configuration model (random), or exact degrees.
    """
    from hushtable.graph.generate import write_edges  # noqa: PLC0415 - slow to import

    edges = ht.generate_graph(ht.Release.load(release), model=model)
    write_edges(edges, out)
    tell(f"Wrote {edges.num_rows:,} edges to {out}.", as_json=as_json, file=str(out),
         edges=edges.num_rows)  # fmt: skip


def _publishing() -> dict[str, str]:
    """Return the names of the publishing commands, each with its method."""
    from hushtable.methods.registry import specs  # noqa: PLC0415 - keeps other commands quick

    return {
        "publish" if name == FIRST else f"publish-{name}": name
        for name, spec in specs().items()
        if spec.publishes and spec.takes == "graph"
    }


def _command(name: str) -> Any:
    if name == "generate":
        return as_command(name, generate)
    from hushtable.methods.registry import specs  # noqa: PLC0415 - keeps other commands quick

    spec = specs()[_publishing()[name]]
    return as_command(name, _publish_command(spec.load(spec.method)))


graph_group = lazy_group(
    "graph",
    lambda: (*_publishing(), "generate"),
    _command,
    help_text="Publish degree sequences and generate synthetic graphs.",
)
