"""Publish a graph: the same order of things as for tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from hushtable.engine.edges import EDGE_COLUMNS, inspect_graph, read_graph
from hushtable.methods.base import GraphMethod
from hushtable.payment import Payment
from hushtable.pipeline import carry_out, promise
from hushtable.privacy.ledger import Ledger
from hushtable.privacy.noise import Noise
from hushtable.privacy.noise_sources import make_noise
from hushtable.release import Release
from hushtable.silence import silenced


@silenced
def publish_graph(
    edges: Any,
    method: GraphMethod,
    *,
    out: str | Path,
    nodes: Any = None,
    columns: tuple[str, str] = EDGE_COLUMNS,
    name: str = "graph",
    ledger: Ledger | str | Path | None = None,
    reservation: int | None = None,
    noise: Literal["secure", "opendp"] | Noise = "secure",
    purpose: str = "",
    same_people: str | None = None,
    receipt: str | None = None,
) -> Release:
    """Publish a private graph with a promise.

    Parameters
    ----------
    edges, nodes, columns
        The private graph, see `hushtable.engine.edges.read_graph`.
    method : GraphMethod
        How to publish, with its parameters.
    out : path
        The folder to make; it must not exist.
    name : str
        What the release is called. A ledger tells graphs apart by it.
    ledger, reservation, noise, purpose, same_people, receipt
        As for `hushtable.publish`.

    Examples
    --------
    >>> import tempfile
    >>> from hushtable.methods.degrees.degrees import Degrees
    >>> ring = [(i, (i + 1) % 1000) for i in range(1000)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release = publish_graph(
    ...         ring, Degrees(epsilon=1, max_degree=4), nodes=range(1000), out=f"{folder}/ring"
    ...     )
    ...     release.table().column_names[:2], 900 < release.count("degree >= 1").value < 1100
    (['degree', 'nodes'], True)
    """
    source = make_noise(noise)
    method.check_input(listed=nodes is not None)
    schema = method.schema(name)
    payment = Payment(
        ledger=ledger,
        reservation=reservation,
        purpose=purpose,
        same_people=same_people,
        receipt=receipt,
    )
    promised = promise(method.guarantee(), schema, noise=source, payment=payment, out=out)
    inspect_graph(edges, nodes=nodes, columns=columns)
    return carry_out(
        method,
        schema,
        promised=promised,
        split=method.forecast().split,
        run=lambda: method.run(read_graph(edges, nodes=nodes, columns=columns), source),
        noise=source,
        out=out,
        payment=payment,
    )
