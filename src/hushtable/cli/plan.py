"""``hushtable plan``: promise, budget and expected error of a method, without reading data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

import hushtable as ht
from hushtable.cli.ending import warn
from hushtable.cli.lazy import method_group
from hushtable.cli.options import (
    AsJson,
    OptionDefault,
    RowsToExpect,
    with_method_options,
)
from hushtable.cli.plain import print_json
from hushtable.cli.screen import console, text
from hushtable.errors import ParameterError
from hushtable.extras import require

if TYPE_CHECKING:
    from hushtable.evaluation.simulation import DryRun, Simulation
    from hushtable.methods.base import Plan


def _solved(name: str, start: str) -> OptionDefault:
    """Return a default that `--want` replaces; without `--want` the option is required."""

    def rule(own: Mapping[str, Any]) -> str:
        if own["want"] is None:
            raise ParameterError(f"{name} is missing; give --{name}, or --want to solve for it.")
        return start

    return OptionDefault("solved for with --want", rule)


SOLVABLE = {
    name: _solved(name, start) for name, start in (("epsilon", "1"), ("retention", "1/100"))
}
"""Fields that `--want` solves for."""


def _plan_command(kind: type[ht.Method]) -> Callable[..., None]:
    @with_method_options(kind, otherwise=SOLVABLE)
    def plan(
        method: ht.Method,
        schema: Path,
        *,
        rows: RowsToExpect = None,
        want: str | None = None,
        plot: Path | None = None,
        dry_run: bool = False,
        like: Path | None = None,
        simulate: bool = True,
        beside: bool = False,
        as_json: AsJson = False,
    ) -> None:
        """Show promise, budget and expected error of a method.

        Parameters
        ----------
        want
            Solve for epsilon: "count error 50 at 1%" means an error of at most 50 rows, with
            95% confidence, for a count of 1% of the rows.
        plot
            Draw error against epsilon to a new SVG file.
        dry_run
            Dry run on a surrogate table made from the schema: show the error of counts by
            column and for pairs. Costs no budget.
        like : PUBLIC
            Simulate with this public table instead; never use the private table.
        simulate
            Publish surrogate tables made from the schema; show the errors of answers. Costs no
            budget; results are stored in the user's cache folder.
        beside
            Simulate other methods too, with the same epsilon, and order them by error.
        """
        from hushtable.cli import error_curve  # noqa: PLC0415 - slow to import
        from hushtable.methods.base import SUPPOSED_ROWS  # noqa: PLC0415

        public = ht.Schema.load(schema)
        answer = None
        if want is not None:
            method, answer = error_curve.solve(method, public, want, rows=rows)
        made = method.plan(public)
        known = public.expected_rows(rows)
        forecast = made.forecast(known)
        uninformative = made.uninformative(SUPPOSED_ROWS if known is None else known)
        curve = error_curve.curve_or_reason(method, public, rows=rows, answer=answer)
        if plot is not None:
            error_curve.write_drawing(plot, curve, answer, f"{method.name}: {public.name}")
        simulated = _simulated(method, public, known, like, beside=beside) if simulate else []
        found = None
        if dry_run or like:
            require("publish", "a dry run")
            from hushtable.evaluation import simulation  # noqa: PLC0415 - slow to import

            found = simulation.dry_run(method, public, rows=known, like=like)
        if as_json:
            content = {**as_plain(made, forecast), "uninformative": uninformative}
            content["simulated"] = [one.to_dict() for one in simulated]
            if found is not None:
                content["dry_run"] = found.to_dict()
            print_json(content | error_curve.plan_to_dict(curve, answer))
            return
        show_plan(made, forecast, uninformative)
        _show_simulated(simulated)
        error_curve.show_plan(console, curve, answer)
        error_curve.show_max_rows(console, error_curve.by_max_rows(method, public, rows=known))
        if found is not None:
            _show_dry_run(found)
        if plot is not None:
            console.print(f"Drew {plot}.")

    return plan


def _simulated(
    method: ht.Method, public: ht.Schema, rows: int | None, like: Path | None, *, beside: bool
) -> list[Simulation]:
    try:
        require("publish", "a simulation")
    except ParameterError as lacking:
        warn(str(lacking))
        return []
    from hushtable.evaluation import simulation  # noqa: PLC0415 - slow to import

    methods = [method, *(simulation.beside(method) if beside else ())]
    return simulation.compare_methods(methods, public, rows=rows, like=like)


def _show_simulated(simulations: list[Simulation]) -> None:
    """Print simulated errors, a line for each method."""
    accepted = [one for one in simulations if not one.problems]
    if accepted:
        from hushtable.evaluation.simulation import KINDS, explained  # noqa: PLC0415 - slow

        console.print("Simulated error of answers", style="bold")
        table = Table("method", *KINDS, box=None, header_style="bold")
        for one in accepted:
            table.add_row(one.method, *one.in_words().values())
        console.print(table)
        console.print(f"  {explained(accepted)}")
    for one in simulations:
        if one.problems:
            console.print(f"  {one.method} is refused: {one.problems[0]}")


def _show_dry_run(found: DryRun) -> None:
    """Print the errors found in a dry run."""
    from hushtable.evaluation.simulation import percent  # noqa: PLC0415 - slow to import

    console.print(f"Dry run on {found.on}, {found.rows:,} rows", style="bold")
    table = Table("counts by", "typical error", "largest error", box=None, header_style="bold")
    for name, off in [*found.columns.items(), ("pairs of columns", found.pairs)]:
        if off is not None:
            rows = f"{percent(off.typical)} ({off.rows:,.0f} rows)"
            table.add_row(name, rows, percent(off.worst))
    console.print(table)
    console.print(text["dry_run"])
    for sentence in found.advice:
        console.print(f"  {sentence}")


def as_plain(made: Plan[Any], forecast: ht.Forecast) -> dict[str, Any]:
    """Return a plan as JSON-serializable data."""
    return {
        "method": made.method.name,
        "parameters": made.method.parameters(),
        "guarantees": [promise.to_dict() for promise in made.guarantees],
        "split": {step: str(share) for step, share in forecast.split.items()},
        "forecast": dict(forecast.lines),
        "n_cells": forecast.n_cells,
        "memory_mb": forecast.peak_mb,
        "conditions": list(made.conditions),
    }


def show_plan(made: Plan[Any], forecast: ht.Forecast, uninformative: str) -> None:
    """Print the promises, the budget split and the forecast."""
    console.print("Promise", style="bold")
    for promise in made.guarantees:
        console.print(f"  {promise.explain()}")
    for condition in made.conditions:
        console.print(f"  {condition}")
    if forecast.split:  # empty if the ledger cannot count the method
        table = Table("step", "epsilon", box=None, header_style="bold")
        for step, share in forecast.split.items():
            table.add_row(step, f"{float(share):g}")
        console.print(table)
    show_forecast(forecast)
    if uninformative:
        console.print(f"  publish will refuse this plan: {uninformative}")


def show_forecast(forecast: ht.Forecast) -> None:
    """Print the forecast of a release."""
    console.print("Expected", style="bold")
    for what, figure in forecast.lines.items():
        console.print(f"  {what}: {written(figure)}")
    console.print(f"  memory: about {forecast.peak_mb:,.0f} MB")


def written(figure: str | float) -> str:
    """Format a number with few digits, from 10^12 on as a power of ten; a text stays unchanged.

    Examples
    --------
    >>> written(8.10545e-16), written(0.25), written(1234.5678), written(3.2e25)
    ('almost 0', '0.25', '1,234.57', 'about 3 x 10^25')
    >>> written(10**400)
    'about 1 x 10^400'
    """
    if isinstance(figure, str):
        return figure
    if 0 < abs(figure) < 1e-4:
        return "almost 0"
    if abs(figure) < 1e12:
        return f"{figure:,.6g}" if abs(figure) < 1e6 else f"{figure:,.0f}"
    # Integers may exceed the range of a float.
    power = math.floor(math.log10(abs(figure)))
    first = round(10 ** (math.log10(abs(figure)) - power))
    sign = "-" if figure < 0 else ""
    return f"about {sign}{first} x 10^{power}"


plan_group = method_group(
    "plan",
    _plan_command,
    among=lambda spec: spec.publishes and spec.takes == "table",
    help_text="Show promise, budget and expected error of a method; reads no data.",
)
