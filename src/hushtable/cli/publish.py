"""``hushtable publish``: publish a private table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import hushtable as ht
from hushtable.cli.lazy import method_group
from hushtable.cli.options import (
    AsJson,
    DataPath,
    LedgerThatPays,
    NewFolder,
    NoiseName,
    Purpose,
    Receipt,
    Reservation,
    SamePeople,
    SchemaPath,
    with_method_options,
)
from hushtable.cli.screen import console, one_bar, print_json


def _publish_command(kind: type[ht.Method]) -> Callable[..., None]:
    from hushtable.engine import EngineName  # noqa: PLC0415 - only for the options of one command

    @with_method_options(kind, names={"EngineName": EngineName})
    def publish(  # noqa: PLR0917 - the options of a command
        method: ht.Method,
        data: DataPath,
        schema: SchemaPath,
        out: NewFolder,
        ledger: LedgerThatPays = None,
        reservation: Reservation = None,
        engine: Annotated[EngineName, typer.Option(help="What counts.")] = "auto",
        noise: NoiseName = "secure",
        purpose: Purpose = "",
        same_people: SamePeople = None,
        receipt: Receipt = None,
        memory_limit: Annotated[
            str | None, typer.Option(help="Limit for counting, such as 1GB.")
        ] = None,
        as_json: AsJson = False,
    ) -> None:
        with one_bar("planning") as progress:
            release = ht.publish(
                data,
                ht.Schema.load(schema),
                method,
                out=out,
                ledger=ledger,
                reservation=reservation,
                engine=engine,
                noise=noise,
                purpose=purpose,
                same_people=same_people,
                receipt=receipt,
                memory_limit=memory_limit,
                progress=progress,
            )
        show_published(release, as_json=as_json)

    return publish


def show_published(release: ht.Release, *, as_json: bool) -> None:
    """Print what was published: the whole statement for programs, the promises for people."""
    if as_json:
        print_json(release.statement.model_dump(mode="json", by_alias=True))
        return
    console.print(f"Published to {release.folder}.")
    for promise in release.statement.guarantees:
        console.print(f"  {promise.explain()}")


publish_group = method_group(
    "publish",
    _publish_command,
    among=lambda listing: listing.publishes and listing.takes == "table",
    help_text="Publish a private table.",
)
