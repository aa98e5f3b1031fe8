"""``hushtable series``: publish the same columns in every wave, and query all waves together.

Parameters
----------
folder : SERIES
    Folder of the series.
where : WHERE
    SQL WHERE clause.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hushtable as ht
from hushtable.cli.options import (
    AsJson,
    CommandGroup,
    EngineOption,
    NoiseName,
    RowsToExpect,
    stated_decision,
)
from hushtable.cli.plain import print_json, visible
from hushtable.cli.release import show_answer
from hushtable.cli.screen import console, tell, text

if TYPE_CHECKING:
    from hushtable.series.plan import Expected

series_group = CommandGroup(
    name="series",
    no_args_is_help=True,
    help="Publish the same columns in every wave, under one promise.",
)


Since = Annotated[
    int | None,
    typer.Option("--from", help="Number of the first wave; default: the one before --until."),
]
Until = Annotated[
    int | None, typer.Option(help="Number of the second wave; default: the last published one.")
]
Next = Annotated[
    int | None, typer.Option(help="Number of the second wave; default: the one after --from.")
]

_TYPICAL_ROWS = 30_000


@series_group.command("init")
def init(
    folder: Path,
    schema: Path,
    *,
    epsilon: str,
    delta: str,
    waves: int | None = None,
    spares: int = 1,
    horizon: int | None = None,
    change: float = 0.05,
    panel: bool = False,
    rows: RowsToExpect = None,
    ledger: Path | None = None,
    same_people: str | None = None,
    responsible: str = "",
    reason: str = "",
    review_by: str = "",
    as_json: AsJson = False,
) -> None:
    """Create a series: plan its total budget and forecast its errors; reads no data.

    Parameters
    ----------
    folder : SERIES
        New folder for the series.
    epsilon : NUMBER
        Total epsilon of all releases of the series.
    delta : NUMBER
        Total delta of all releases of the series.
    waves
        Number of planned waves; default: no fixed end.
    spares
        Extra releases, for corrections and failed runs.
    horizon
        Without --waves: the wave by which half of the budget is spent.
    change
        Expected share of people who change per wave; a rough guess.
    panel
        Link people across waves: publish transitions and panel rows.
    ledger
        Ledger of the same people that pays; default: a new one.
    same_people : REASON
        Why this ledger is about the same people; recorded.
    """
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
        folder,
        public,
        plan,
        decision=stated_decision(responsible, reason, review_by),
        ledger=ledger,
        same_people=same_people,
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
    console.print(f"Created {visible(str(folder))}; no data was read.")
    others = "" if second is None else f", the second {float(second):.3g}"
    console.print(
        text("series_planned", epsilon=epsilon, delta=delta, first=float(first), others=others)
    )
    _show_expected(expected, n_rows, change)


def _show_expected(expected: Expected, rows: int, change: float) -> None:
    console.print(text("series_expected", waves=expected.waves, rows=rows, change=change))
    lines = {
        "level, from one wave": (expected.alone, "rows"),
        "level, with earlier waves": (expected.level, "rows"),
        "change since the previous wave": (expected.change, "rows"),
        "trend over all waves": (expected.trend, "rows per wave"),
        "transitions between two values": (expected.moved, "people"),
    }
    for what, (number, unit) in lines.items():
        if number is not None:
            console.print(f"    {what:30} +- {number:,.3g} {unit}")


@series_group.command("publish")
def publish(
    folder: Path,
    data: str,
    *,
    before: str | None = None,
    wave: int | None = None,
    correct: str | None = None,
    unseen: str | None = None,
    engine: EngineOption = "auto",
    noise: NoiseName = "secure",
    memory_limit: str | None = None,
    anyway: bool = False,
    as_json: AsJson = False,
) -> None:
    """Publish a wave, using all earlier waves as prior.

    Parameters
    ----------
    data : DATA
        Table of the wave (CSV or Parquet).
    before : DATA
        In a panel: private table of the previous wave.
    wave
        Number of the wave; default: the next.
    correct : REASON
        Publish a wave again; the statement says so and why.
    unseen : REASON
        Refund a killed run whose output nobody saw; REASON is recorded.
    """
    from hushtable.cli.publish import publish_and_show  # noqa: PLC0415 - only for this command

    publish_and_show(
        ht.Series.open(folder).publish,
        data,
        before=before,
        wave=wave,
        correct=correct,
        unseen=unseen,
        engine=engine,
        noise=noise,
        memory_limit=memory_limit,
        anyway=anyway,
        as_json=as_json,
    )


@series_group.command("show")
def show(folder: Path, as_json: AsJson = False) -> None:
    """Show the plan, the published waves and the remaining releases."""
    from fractions import Fraction  # noqa: PLC0415 - only for this command

    from hushtable.privacy.values import rounded  # noqa: PLC0415 - slow to import

    series = ht.Series.open(folder)
    content = series.summary()
    if as_json:
        print_json(content)
        return
    kind = "panel" if content["panel"] else "series"
    planned = "without a fixed end" if content["waves"] is None else f"of {content['waves']} waves"
    epsilon, delta = (rounded(Fraction(content[name])) for name in ("epsilon", "delta"))
    console.print(
        f"A {kind} {planned}: epsilon {epsilon} and delta {delta} cover all rows of a person in "
        "all waves."
    )
    for release in content["releases"]:
        about = ""
        if release["replaces"]:
            about = f"; replaces {release['replaces']}: {visible(release['because'])}"
        elif not release["valid"]:
            about = "; replaced by a correction"
        console.print(
            f"  {release['name']}: about {release['rows']:,.0f} rows, published on "
            f"{release['created']}{about}"
        )
    for one in content["breaks"]:
        columns = visible(", ".join(one["columns"]))
        console.print(f"  Break at wave {one['wave']} in {columns}: {visible(one['because'])}")
    for name in content["lost"]:
        console.print(text("series_lost", name=name))
    if content["left"] is not None:
        console.print(f"Releases left: {content['left']}.")


@series_group.command("break")
def declare_break(
    folder: Path, *, wave: int, columns: str, because: str, as_json: AsJson = False
) -> None:
    """Declare a break, such as a new law: earlier waves then say nothing about later counts.

    Parameters
    ----------
    wave
        First wave after the break.
    columns : A,B
        Columns whose counts may jump.
    because : REASON
        Reason; analysts see it.
    """
    names = [name.strip() for name in columns.split(",") if name.strip()]
    ht.Series.open(folder).declare_break(wave, names, because)
    told = f"Declared a break at wave {wave} in {', '.join(names)}."
    tell(told, as_json=as_json, wave=wave, columns=names)


@series_group.command("extend")
def extend(folder: Path, *, waves: int, as_json: AsJson = False) -> None:
    """Plan more waves under the same promise; they share the budget that is left.

    Parameters
    ----------
    waves
        New number of waves.
    """
    plan = ht.Series.open(folder).extend(waves)
    place = plan.extensions[-1][0] + 1
    epsilon = plan.method(place).epsilon
    tell(
        f"The series has {waves} waves now. Each further release alone has epsilon "
        f"{float(epsilon):.3g}.",
        as_json=as_json,
        waves=waves,
        epsilon=str(epsilon),
    )


@series_group.command("count")
def count(folder: Path, where: str, *, wave: int | None = None, as_json: AsJson = False) -> None:
    """Estimate the number of rows of a wave that satisfy a condition, using all waves.

    Parameters
    ----------
    wave
        Number of the wave; default: the last.
    """
    show_answer(ht.Series.open(folder).count(where, wave=wave), as_json=as_json)


@series_group.command("change")
def change(
    folder: Path, where: str, since: Since = None, until: Until = None, as_json: AsJson = False
) -> None:
    """Estimate the change of a count between two waves."""
    found = ht.Series.open(folder).change(where, since=since, until=until)
    show_answer(found, as_json=as_json)


@series_group.command("trend")
def trend(folder: Path, where: str, *, plot: Path | None = None, as_json: AsJson = False) -> None:
    """Estimate the trend of a count, in rows per wave.

    Parameters
    ----------
    plot
        Draw the count over all waves to a new SVG file.
    """
    from hushtable.files.writing import require_new, write_whole  # noqa: PLC0415 - one command

    if plot is not None:
        require_new(plot, ".svg")
    series = ht.Series.open(folder)
    found = series.trend(where)
    if plot is not None:
        write_whole(plot, series.plot(where))
    show_answer(found, as_json=as_json)
    if plot is not None and not as_json:
        console.print(f"Drew {visible(str(plot))}.")


@series_group.command("transitions")
def transitions(
    folder: Path, column: str, *, since: Since = None, until: Next = None, as_json: AsJson = False
) -> None:
    """Estimate the number of people of a panel per transition between values of a column.

    Parameters
    ----------
    column : COLUMN
        Published column.
    """
    from rich.table import Table  # noqa: PLC0415 - slow to import

    found = ht.Series.open(folder).transitions(column, since=since, until=until)
    rows, moved = found.table().to_pylist(), found.mobility
    if as_json:
        about = {"column": column, "since": found.since, "until": found.until}
        mobility = {"people": moved.value, "low": moved.low, "high": moved.high}
        print_json({**about, "mobility": mobility, "transitions": rows, "notes": list(found.notes)})
        return
    shown = Table(box=None, header_style="bold")
    heads = (
        f"wave {found.since}",
        f"wave {found.until}",
        "people",
        "95% interval",
        "share of origin",
    )
    for head in heads:
        shown.add_column(head)
    for row in rows:
        share = "" if row["share"] is None else f"{row['share']:.1%}"
        shown.add_row(
            visible(row["before"]), visible(row["now"]), f"{row['shown']:,.0f}",
            f"{max(row['low'], 0):,.0f} to {max(row['high'], 0):,.0f}", share,
        )  # fmt: skip
    console.print(shown)
    console.print(
        f"  People whose {visible(column)} changed: {moved.value:,.0f} "
        f"({moved.low:,.0f} to {moved.high:,.0f})."
    )
    for note in found.notes:
        console.print(f"  {note}")


@series_group.command("moved")
def moved(
    folder: Path,
    *,
    since: Since = None,
    until: Next = None,
    before: str | None = None,
    now: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the number of people of a panel who moved between two conditions on a column.

    Parameters
    ----------
    before : WHERE
        Condition in the first wave.
    now : WHERE
        Condition in the second wave.
    """
    show_answer(
        ht.Series.open(folder).moved(before, now, since=since, until=until), as_json=as_json
    )


@series_group.command("panel")
def panel(folder: Path, *, out: Path, as_json: AsJson = False) -> None:
    """Write the synthetic rows of a panel: one row per person and wave.

    Parameters
    ----------
    out
        New .csv, .parquet, .dta (Stata) or .sav (SPSS) file.
    """
    ht.Series.open(folder).export_panel(out)
    tell(f"Wrote {out}.", as_json=as_json, file=str(out))
