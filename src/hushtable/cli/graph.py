"""``hushtable graph``: publish degree sequences, make synthetic graphs from them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from hushtable.engine.edges import read_graph
from hushtable.errors import ParameterError
from hushtable.graph.generate import Model, generate_graph, write_edges
from hushtable.graph.plot import plot_degrees
from hushtable.methods.degrees.degrees import Degrees, Fit, Mechanism, Population, Tail
from hushtable.pipeline import publish_graph
from hushtable.release import Release

graph_app = typer.Typer(no_args_is_help=True)
console = Console(markup=False, emoji=False)  # names from files are not markup


@graph_app.command("publish")
def publish(  # noqa: PLR0917 - the options of a command
    edges: Annotated[
        Path,
        typer.Argument(
            metavar="EDGES",
            help="Edge list: .parquet, .csv with a header, or text with two ids per line; or .gz.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to make for the release.")],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Bound on the privacy loss.")],
    nodes: Annotated[
        Path | None, typer.Option(help="List of all nodes, those without edges too.")
    ] = None,
    max_degree: Annotated[
        str, typer.Option(metavar="NUMBER|private", help="Public bound on degrees, or private.")
    ] = "private",
    mechanism: Annotated[Mechanism, typer.Option(help="How to count.")] = "cumulative",
    population: Annotated[
        Population | None,
        typer.Option(help="Where nodes come from; listed where --nodes is given."),
    ] = None,
    n_nodes_share: Annotated[
        str, typer.Option(metavar="NUMBER", help="Share of epsilon for the number of nodes.")
    ] = "1/10",
    bound_share: Annotated[
        str, typer.Option(metavar="NUMBER", help="Share of epsilon for a private bound.")
    ] = "1/5",
    largest_bound: Annotated[int, typer.Option(help="Largest bound private may choose.")] = 1024,
    n_levels: Annotated[int, typer.Option(help="How often partition cuts.")] = 3,
    fit: Annotated[Fit, typer.Option(help="How noise is taken off.")] = "smooth",
    tail: Annotated[Tail, typer.Option(help="Whether to put back what the bound took.")] = "model",
    source: Annotated[str, typer.Option(help="Column of one end.")] = "source",
    target: Annotated[str, typer.Option(help="Column of the other end.")] = "target",
    name: Annotated[str, typer.Option(help="What the release is called.")] = "graph",
    ledger: Annotated[Path | None, typer.Option(help="Ledger that pays.")] = None,
    reservation: Annotated[int | None, typer.Option(help="Reservation to use up.")] = None,
    noise: Annotated[
        Literal["secure", "opendp"], typer.Option(help="Whose samplers draw the noise.")
    ] = "secure",
    purpose: Annotated[str, typer.Option(help="Why, for the ledger.")] = "",
    same_people: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Why another table than the ledger's is about the same people; on record.",
        ),
    ] = None,
    receipt: Annotated[
        str | None, typer.Option(help="A receipt that the ledger must contain.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the private and the published degrees to a new file (internal)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")] = False,
) -> None:
    """Publish the degree sequence of a private graph, protecting whole nodes."""
    parameters: dict[str, Any] = {
        "epsilon": epsilon,
        "max_degree": max_degree,
        "mechanism": mechanism,
        "population": population or ("listed" if nodes else "endpoints"),
        "n_nodes_share": n_nodes_share,
        "bound_share": bound_share,
        "largest_bound": largest_bound,
        "n_levels": n_levels,
        "fit": fit,
        "tail": tail,
    }
    method = Degrees(**parameters)
    if plot is not None and (plot.exists() or plot.suffix not in {".png", ".svg", ".pdf"}):
        raise ParameterError(f"{str(plot)!r} exists, or is not a .png, .svg or .pdf file.")
    release = publish_graph(
        edges,
        method,
        out=out,
        nodes=nodes,
        columns=(source, target),
        name=name,
        ledger=ledger,
        reservation=reservation,
        noise=noise,
        purpose=purpose,
        same_people=same_people,
        receipt=receipt,
    )
    if plot is not None:
        private = read_graph(edges, nodes=nodes, columns=(source, target))
        plot_degrees(release, plot, original=private.degrees())
    if as_json:
        content = release.statement.model_dump(mode="json", by_alias=True)
        sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        return
    console.print(f"Published to {release.folder}.")
    for promise in release.statement.guarantees:
        console.print(f"  {promise.explain()}")
    if plot is not None:
        console.print(f"Drew {plot}: it shows the private graph and is not covered by the promise.")


@graph_app.command("generate")
def generate(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release of degrees.")],
    to: Annotated[Path, typer.Option(help="A new .txt, .csv or .parquet file.")],
    model: Annotated[
        Model, typer.Option(help="configuration is random; exact keeps every degree.")
    ] = "configuration",
) -> None:
    """Make a synthetic graph from a release and write its edge list."""
    edges = generate_graph(Release.load(release), model=model)
    write_edges(edges, to)
    console.print(f"Wrote {edges.num_rows:,} edges to {to}.")
