"""``hushtable methods``: the registered methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from hushtable.cli.options import AsJson
from hushtable.cli.plain import print_json
from hushtable.cli.screen import console, print_whole
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    from hushtable.methods.spec import MethodSpec


def methods(as_json: AsJson = False) -> None:
    """List the methods with their input, purpose and paper."""
    from hushtable.methods.registry import specs  # noqa: PLC0415 - keeps other commands quick

    known = [(spec, *_about(spec)) for spec in specs().values()]
    if as_json:
        print_json(
            {
                spec.name: {
                    "summary": summary,
                    "paper": paper,
                    "takes": spec.takes,
                    "baseline": spec.baseline,
                    "publishes": spec.publishes,
                }
                for spec, summary, paper in known
            }
        )
        return
    table = Table(box=None, header_style="bold")
    table.add_column("method", no_wrap=True)
    for column in ("input", "description", "source"):
        table.add_column(column)
    for spec, summary, paper in known:
        table.add_row(spec.name, spec.takes, summary, paper)
    print_whole(table)
    baselines = ", ".join(spec.name for spec, *_ in known if spec.baseline)
    console.print(f"\nBaselines, for comparison: {baselines}.")
    alone = ", ".join(spec.name for spec, *_ in known if not spec.publishes)
    console.print(f"Python only, without releases: {alone}.")


def _about(spec: MethodSpec) -> tuple[str, str]:
    """Return summary and paper of a method, or the reason that it cannot be loaded."""
    try:
        method = spec.load(spec.method)
    except ParameterError as error:
        return str(error), ""
    return method.summary, method.paper
