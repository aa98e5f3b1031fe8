"""``hushtable series``: publish the same columns wave after wave, and ask all waves together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import hushtable as ht
from hushtable.cli.ending import Publishing
from hushtable.cli.options import (
    Anyway,
    AsJson,
    MemoryLimit,
    NoiseName,
    Reason,
    Responsible,
    ReviewBy,
    RowsToExpect,
    SchemaPath,
    stated_decision,
)
from hushtable.cli.plain import print_json, visible
from hushtable.cli.screen import console, one_bar, tell
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    from hushtable.series.plan import Expected

series_group = typer.Typer(
    name="series",
    no_args_is_help=True,
    help="Publish the same columns wave after wave under one promise.",
)

Folder = Annotated[Path, typer.Argument(metavar="SERIES", help="The folder of the series.")]
Where = Annotated[str, typer.Argument(metavar="WHERE", help="A SQL WHERE clause.")]

_TYPICAL_ROWS = 30_000


@series_group.command("init")
def init(  # noqa: PLR0917 - the options of a command
    folder: Annotated[Path, typer.Argument(metavar="SERIES", help="Folder to make.")],
    schema: SchemaPath,
    epsilon: Annotated[
        str, typer.Option(metavar="NUMBER", help="For everything ever published of the series.")
    ],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="Chance of exceeding epsilon.")],
    waves: Annotated[int | None, typer.Option(help="How many waves there will be.")] = None,
    spares: Annotated[
        int, typer.Option(help="How many more releases: corrections, and runs that were lost.")
    ] = 1,
    horizon: Annotated[
        int | None,
        typer.Option(help="Without an end: the wave by which half of the budget is spent."),
    ] = None,
    change: Annotated[
        float, typer.Option(help="Share of people supposed to change in a wave; a guess will do.")
    ] = 0.05,
    panel: Annotated[
        bool,
        typer.Option(
            "--panel", help="Follow people from wave to wave: transitions, and panel rows."
        ),
    ] = False,
    rows: RowsToExpect = None,
    responsible: Responsible = "",
    reason: Reason = "",
    review_by: ReviewBy = "",
    as_json: AsJson = False,
) -> None:
    """Start a series: plan its whole budget and say what to expect; reads no data."""
    from hushtable.privacy.rational import as_rational  # noqa: PLC0415 - slow to import

    public = ht.Schema.load(schema)
    plan = ht.SeriesPlan(
        epsilon=as_rational(epsilon, name="epsilon"),
        delta=as_rational(delta, name="delta"),
        waves=waves,
        spares=spares,
        horizon=horizon,
        change=change,
        panel=panel,
    )
    series = ht.Series.create(
        folder, public, plan, decision=stated_decision(responsible, reason, review_by)
    )
    n_rows = rows or _TYPICAL_ROWS
    expected = plan.forecast(public, n_rows)
    first, second = plan.method(1).epsilon, plan.method(2).epsilon if plan.share(2) else None
    if as_json:
        print_json(
            {
                "series": str(series.folder),
                "rows": n_rows,
                "epsilon": {"first": str(first), "second": None if second is None else str(second)},
                "expected": vars(expected),
            }
        )
        return
    console.print(f"Started {visible(str(folder))}; no data was read.", highlight=False)
    others = "" if second is None else f", the second {float(second):.3g}"
    console.print(
        f"  Epsilon {epsilon} and delta {delta} for each person with all rows in all waves. By "
        f"itself the first wave has epsilon {float(first):.3g}{others}.",
        highlight=False,
    )
    _show_expected(expected, n_rows, change)


def _show_expected(expected: Expected, rows: int, change: float) -> None:
    console.print(
        f"  Expected after {expected.waves} waves of {rows:,} rows, {change:.0%} of whom change in "
        "a wave, for a question about a tenth of them by one column (95 % of answers are closer):",
        highlight=False,
    )
    lines = {
        "level, from the wave alone": (expected.alone, "rows"),
        "level, with the waves before": (expected.level, "rows"),
        "change from the wave before": (expected.change, "rows"),
        "trend over all waves": (expected.trend, "rows a wave"),
        "moves from one value to another": (expected.moved, "people"),
    }
    for what, (number, unit) in lines.items():
        if number is not None:
            console.print(f"    {what:30} +- {number:,.3g} {unit}", highlight=False)


@series_group.command("publish")
def publish(  # noqa: PLR0917 - the options of a command
    folder: Folder,
    data: Annotated[str, typer.Argument(metavar="DATA", help="The wave, a CSV or Parquet file.")],
    before: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="In a panel: the private table of the wave before."),
    ] = None,
    wave: Annotated[int | None, typer.Option(help="Which wave; else the next one.")] = None,
    correct: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Publish a wave once more, and why; on record."),
    ] = None,
    unseen: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Why nobody saw anything of a run that was killed; takes its charge back.",
        ),
    ] = None,
    engine: Annotated[
        Literal["auto", "memory", "duckdb", "spark"], typer.Option(help="What counts.")
    ] = "auto",
    noise: NoiseName = "secure",
    memory_limit: MemoryLimit = None,
    anyway: Anyway = False,
    as_json: AsJson = False,
) -> None:
    """Publish a wave, with all waves before it as what is known already."""
    from hushtable.cli.publish import show_published  # noqa: PLC0415 - only for this command

    series = ht.Series.open(folder)
    with Publishing() as publishing:
        with one_bar("planning") as progress:
            release = series.publish(
                data,
                before=before,
                wave=wave,
                correct=correct,
                unseen=unseen,
                engine=engine,
                noise=noise,
                memory_limit=memory_limit,
                anyway=anyway,
                progress=publishing.heard(progress),
            )
        show_published(release, as_json=as_json)


@series_group.command("show")
def show(folder: Folder, as_json: AsJson = False) -> None:
    """Show the plan, the waves that are published, and what is left of the budget."""
    from fractions import Fraction  # noqa: PLC0415 - only for this command

    from hushtable.privacy.values import rounded  # noqa: PLC0415 - slow to import

    series = ht.Series.open(folder)
    content = series.summary()
    if as_json:
        print_json(content)
        return
    kind = "panel" if content["panel"] else "series"
    planned = "without an end" if content["waves"] is None else f"of {content['waves']} waves"
    epsilon, delta = (rounded(Fraction(content[name])) for name in ("epsilon", "delta"))
    console.print(
        f"A {kind} {planned}: epsilon {epsilon} and delta {delta} for each person with all rows in "
        "all waves.",
        highlight=False,
    )
    for release in content["releases"]:
        console.print(
            f"  {release['name']}: about {release['rows']:,.0f} rows, published on "
            f"{release['created']}",
            highlight=False,
        )
    for name in content["lost"]:
        console.print(
            f"  {name}: charged, and not there: its run was killed, or runs now. Publish it again "
            "to be told what can be done.",
            highlight=False,
        )
    if content["left"] is not None:
        console.print(f"Releases left: {content['left']}.", highlight=False)


@series_group.command("count")
def count(
    folder: Folder,
    where: Where,
    wave: Annotated[int | None, typer.Option(help="Which wave; else the last one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate how many rows of a wave satisfy a condition, from all waves."""
    _answer(ht.Series.open(folder).count(where, wave=wave), as_json)


@series_group.command("change")
def change(
    folder: Folder,
    where: Where,
    since: Annotated[int, typer.Option(help="The wave to compare with.")],
    until: Annotated[int | None, typer.Option(help="Up to which wave; else the last one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate by how many rows a count rose since a wave."""
    _answer(ht.Series.open(folder).change(where, since=since, until=until), as_json)


@series_group.command("trend")
def trend(
    folder: Folder,
    where: Where,
    plot: Annotated[
        Path | None, typer.Option(help="New .svg file for the count over all waves.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate by how many rows a count rises per wave, and draw it."""
    from hushtable.files.whole_file import require_new, write_whole  # noqa: PLC0415 - one command

    if plot is not None:
        if plot.suffix != ".svg":
            raise ParameterError(f"{str(plot)!r} is not a .svg file.")
        require_new(plot)
    series = ht.Series.open(folder)
    found = series.trend(where)
    if plot is not None:
        write_whole(plot, series.plot(where))
    _answer(found, as_json)
    if plot is not None and not as_json:
        console.print(f"Drew {visible(str(plot))}.", highlight=False)


@series_group.command("transitions")
def transitions(
    folder: Folder,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A published column.")],
    since: Annotated[int, typer.Option(help="From this wave to the next.")],
    as_json: AsJson = False,
) -> None:
    """Estimate how many people of a panel went from each value of a column to each other one."""
    from rich.table import Table  # noqa: PLC0415 - slow to import

    found = ht.Series.open(folder).transitions(column, since=since)
    rows = found.table().to_pylist()
    if as_json:
        about = {"column": column, "since": since, "until": found.until}
        print_json({**about, "transitions": rows, "notes": list(found.notes)})
        return
    shown = Table(box=None, header_style="bold")
    heads = (f"wave {since}", f"wave {found.until}", "people", "95 % interval", "of those before")
    for head in heads:
        shown.add_column(head)
    for row in rows:
        share = "" if row["share"] is None else f"{row['share']:.1%}"
        shown.add_row(
            visible(row["before"]), visible(row["now"]), f"{row['people']:,.0f}",
            f"{row['low']:,.0f} to {row['high']:,.0f}", share,
        )  # fmt: skip
    console.print(shown)
    for note in found.notes:
        console.print(f"  {note}", highlight=False)


@series_group.command("moved")
def moved(
    folder: Folder,
    since: Annotated[int, typer.Option(help="From this wave to the next.")],
    before: Annotated[
        str | None, typer.Option(metavar="WHERE", help="What held at that wave.")
    ] = None,
    now: Annotated[
        str | None, typer.Option(metavar="WHERE", help="What holds at the next.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate how many people of a panel went from one condition to another, on one column."""
    _answer(ht.Series.open(folder).moved(before, now, since=since), as_json)


@series_group.command("panel")
def panel(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="A new .csv or .parquet file.")],
    as_json: AsJson = False,
) -> None:
    """Write the synthetic people of a panel: a row for each wave and person."""
    ht.Series.open(folder).export_panel(out)
    tell(f"Wrote {out}.", as_json=as_json, file=str(out))


def _answer(found: ht.Estimate, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict())
        return
    console.print(str(found), highlight=False)
    for note in found.notes:
        console.print(f"  {note}", highlight=False)
