"""``hushtable methods``: the registered methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from hushtable.cli.options import AsJson
from hushtable.cli.plain import print_json
from hushtable.cli.screen import console, print_whole
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    from hushtable.methods.listing import Listing


def methods(as_json: AsJson = False) -> None:
    """List the methods with their input, purpose and paper."""
    from hushtable.methods.registry import listings  # noqa: PLC0415 - keeps other commands quick

    known = [(listing, *_about(listing)) for listing in listings().values()]
    if as_json:
        print_json(
            {
                listing.name: {
                    "summary": summary,
                    "paper": paper,
                    "takes": listing.takes,
                    "baseline": listing.baseline,
                    "publishes": listing.publishes,
                }
                for listing, summary, paper in known
            }
        )
        return
    table = Table(box=None, header_style="bold")
    table.add_column("method", no_wrap=True)
    for column in ("input", "description", "source"):
        table.add_column(column)
    for listing, summary, paper in known:
        table.add_row(listing.name, listing.takes, summary, paper)
    print_whole(table)
    baselines = ", ".join(listing.name for listing, *_ in known if listing.baseline)
    console.print(f"\nBaselines, for comparison: {baselines}.", highlight=False)
    alone = ", ".join(listing.name for listing, *_ in known if not listing.publishes)
    console.print(f"Python only, without releases: {alone}.", highlight=False)


def _about(listing: Listing) -> tuple[str, str]:
    """Return summary and paper of a method, or the reason that it cannot be loaded."""
    try:
        method = listing.load(listing.method)
    except ParameterError as error:
        return str(error), ""
    return method.summary, method.paper
