"""HTML page of a ledger: amounts spent and remaining, decisions and entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from hushtable.evaluation.report.pages import fill_page
from hushtable.evaluation.report.plots import steps_plot
from hushtable.extras import needing
from hushtable.files.whole_file import write_whole
from hushtable.privacy.ledger.decision import Decision
from hushtable.privacy.values import rounded

with needing("eval", "the page"):
    from markupsafe import Markup

INTERNAL = (
    "INTERNAL: contains names, justifications and failed attempts, which releases do not show. Do "
    "not publish."
)
LINES = {"basic": "release-line", "concentrated": "warn-line"}


def write_ledger(path: str | Path, content: Mapping[str, Any], *, protects: str) -> None:
    """Write the output of `Ledger.show` as an HTML page to a new file."""
    write_whole(path, render(content, protects=protects))


def render(content: Mapping[str, Any], *, protects: str) -> str:
    """Render the output of `Ledger.show` as one self-contained HTML page."""
    today = datetime.now(UTC).date()
    decisions = [("The cap", content["decision"])]
    decisions += [(f"Entry {entry['id']}", entry["decision"]) for entry in content["entries"]]
    return fill_page(
        "ledger.html",
        **{**content, "name": content["name"] or "Ledger"},
        internal=INTERNAL,
        protects=protects,
        plot=_plot(content["history"]),
        decisions=[
            {"what": what, **stated, "overdue": Decision(**stated).is_overdue(today)}
            for what, stated in decisions
            if stated
        ],
        accounts=[
            {
                "account": account,
                "number": number,
                **{
                    part: rounded(Fraction(content[account][part][number]))
                    for part in ("limit", "spent", "reserved", "left")
                },
            }
            for account, numbers in (
                ("basic", ("epsilon", "delta")),
                ("concentrated", ("rho", "delta")),
            )
            if content[account]
            for number in numbers
        ],
    )


def _plot(history: Sequence[Mapping[str, Any]]) -> Markup:
    """Plot the share of each account that was spent over time."""
    times = [datetime.fromisoformat(step["time"]).timestamp() for step in history]
    first, span = min(times), max(times) - min(times)
    steps: dict[str, tuple[str, list[tuple[float, float]]]] = {}
    for account, kind in LINES.items():
        shares = [step[account] for step in history]
        if shares[-1] is not None:
            places = ((time - first) / span if span else 0.0 for time in times)
            steps[account] = kind, list(zip(places, shares, strict=True))
    ends = (history[0]["time"][:10], history[-1]["time"][:10])
    svg = steps_plot(steps, title="budget spent over time, by account", ends=ends)
    return Markup(svg)  # noqa: S704 - made of numbers
