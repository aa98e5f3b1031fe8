"""``hushtable methods``: everything that is in the registry."""

from __future__ import annotations

from rich.table import Table

from hushtable.cli.options import AsJson
from hushtable.cli.screen import console, print_json, print_whole


def methods(as_json: AsJson = False) -> None:
    """List the methods: what each takes and does, and which paper it is from."""
    from hushtable.methods.registry import listings  # noqa: PLC0415 - keeps other commands quick

    known = [(listing, listing.load(listing.method)) for listing in listings().values()]
    if as_json:
        print_json(
            {
                listing.name: {
                    "summary": method.summary,
                    "paper": method.paper,
                    "takes": listing.takes,
                    "baseline": listing.baseline,
                    "publishes": listing.publishes,
                }
                for listing, method in known
            }
        )
        return
    table = Table(box=None, header_style="bold")
    table.add_column("method", no_wrap=True)
    for column in ("takes", "what it does", "from"):
        table.add_column(column)
    for listing, method in known:
        table.add_row(listing.name, listing.takes, method.summary, method.paper)
    print_whole(table)
    baselines = ", ".join(listing.name for listing, _ in known if listing.baseline)
    console.print(f"\nBaselines, here to be compared with: {baselines}.", highlight=False)
    alone = ", ".join(listing.name for listing, _ in known if not listing.publishes)
    console.print(f"For Python alone, since they publish no release: {alone}.", highlight=False)
