"""``hushtable publish``: publish a private table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushtable as ht
from hushtable.cli.ending import Publishing, warn
from hushtable.cli.lazy import method_group
from hushtable.cli.options import (
    AsJson,
    EngineOption,
    NoiseName,
    PayingOptions,
    RowsToExpect,
    with_method_options,
)
from hushtable.cli.plain import print_json
from hushtable.cli.plan import show_forecast
from hushtable.cli.screen import console, one_bar, text


def _publish_command(kind: type[ht.Method]) -> Callable[..., None]:
    @with_method_options(kind)
    def publish(
        method: ht.Method,
        data: str,
        schema: Path,
        *,
        out: Path,
        pays: PayingOptions,
        engine: EngineOption = "auto",
        noise: NoiseName = "secure",
        memory_limit: str | None = None,
        columns: str | None = None,
        rows: RowsToExpect = None,
        anyway: bool = False,
        explore: bool | None = None,
        as_json: AsJson = False,
    ) -> None:
        """Publish a private table.

        Parameters
        ----------
        columns : A,B,...
            Publish only these columns of the schema.
        explore
            Add explore.html to the release, a page with answers. By default, if its answers
            take seconds.
        """
        publish_and_show(
            ht.publish,
            data,
            ht.Schema.load(schema),
            method,
            out=out,
            engine=engine,
            noise=noise,
            memory_limit=memory_limit,
            columns=None if columns is None else columns.split(","),
            rows=rows,
            anyway=anyway,
            on_forecast=None if as_json else show_forecast,
            explore=explore,
            as_json=as_json,
            **pays.paying(),
        )

    return publish


def publish_and_show(
    publish: Callable[..., ht.Release],
    *inputs: Any,
    as_json: bool,
    explore: bool | None = False,
    **options: Any,
) -> None:
    """Publish with a progress bar and print the release; later failures only warn."""
    from hushtable.release.metadata import write_metadata  # noqa: PLC0415 - slow to import

    with Publishing() as publishing:
        with one_bar("planning") as progress:
            release = publish(*inputs, progress=publishing.heard(progress), **options)
        show_published(release, as_json=as_json)
        write_metadata(release, release.folder)
        _add_explorer(release, explore=explore, as_json=as_json)


def _add_explorer(release: ht.Release, *, explore: bool | None, as_json: bool) -> None:
    """Write the explorer of a release into its folder, if wanted or (None) if that is quick."""
    from hushtable.files.writing import replace_whole  # noqa: PLC0415 - slow to import
    from hushtable.web.explorer_page import explorer_page, is_quick  # noqa: PLC0415

    if explore or (explore is None and is_quick(release)):
        with one_bar("computing answers") as progress:
            page = explorer_page(release, progress)
        replace_whole(release.folder / "explore.html", page)
        if not as_json:
            console.print("  explore.html in it is a page with answers for any browser.")


def show_published(release: ht.Release, *, as_json: bool) -> None:
    """Print the statement as JSON, or a summary with the promises."""
    n_rows = _rows_out(release)
    if as_json:
        statement = release.statement.model_dump(mode="json", by_alias=True)
        print_json({**statement, "rows_out": n_rows})
        return
    said = "" if n_rows is None else f": {_told_rows(release, n_rows)}"
    console.print(f"Published to {release.folder}{said}.")
    if n_rows == 0:
        console.print(text["empty_release"])
    for promise in release.statement.guarantees:
        console.print(f"  {promise.explain()}")
    if not any(hasattr(promise, "epsilon") for promise in release.statement.guarantees):
        console.print(
            text["no_epsilon"],
            style="bold",
        )
    if release.statement.ledger is None:
        console.print(
            text["no_ledger"],
            style="bold", soft_wrap=True,
        )  # fmt: skip


def _rows_out(release: ht.Release) -> int | None:
    """Count the rows of a complete release; warn and return None if that fails."""
    try:
        return release.rows_out
    except Exception as error:
        warn(
            f"the release is complete, but its rows could not be counted ({type(error).__name__})."
            " Do not publish it again."
        )
        return None


def _told_rows(release: ht.Release, n_rows: int) -> str:
    """Return the number of rows as text, by table for linked tables."""
    linked = release.statement.estimator.get("linked")
    if linked is None:
        return f"{n_rows:,} rows"
    rows = {name: release.statement.tables[name].rows for name in linked["tables"]}
    return ", ".join(f"{n:,} rows of {name}" for name, n in rows.items())


publish_group = method_group(
    "publish",
    _publish_command,
    among=lambda spec: spec.publishes and spec.takes == "table",
    help_text="Publish a private table.",
)
