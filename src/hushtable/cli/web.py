"""``hushtable workbench`` and ``hushtable serve``: the pages in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import hushtable as ht
from hushtable.cli.options import ReleasePath
from hushtable.cli.screen import console
from hushtable.extras import needing

Port = Annotated[int, typer.Option(help="Port; 0 takes any that is free.", min=0, max=65535)]


def workbench(  # noqa: PLR0917 - the options of a command
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where projects are kept.")
    ] = Path(),
    data: Annotated[
        list[Path] | None,
        typer.Option(help="A folder outside it whose tables may be read; may be repeated."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address of this machine.")] = "127.0.0.1",
    port: Port = 0,
    max_upload: Annotated[int, typer.Option(help="Megabytes that may be uploaded.", min=1)] = 512,
    browse: Annotated[bool, typer.Option(help="Open the browser.")] = True,
) -> None:
    """Open the custodian's desk in a browser, for this machine alone."""
    with needing("web", "the browser's page"):
        from hushtable.web.desk import make_desk  # noqa: PLC0415 - an extra
        from hushtable.web.security import Door  # noqa: PLC0415
        from hushtable.web.server import listen, require_loopback, run  # noqa: PLC0415
        from hushtable.web.workbench import Workbench  # noqa: PLC0415
    require_loopback(host, port)
    bench = Workbench(folder, data_folders=data or ())
    held, door = listen(host, port), Door()
    taken: int = held.getsockname()[1]
    named = f"[{host}]" if ":" in host else host
    address = f"http://{named}:{taken}/?token="

    def ready() -> None:
        console.print(f"The workbench for {bench.folder} is at", highlight=False)
        console.print(f"  {address}{door.token}", highlight=False, soft_wrap=True)
        console.print("Only this machine can open it. Press Ctrl-C to close it.")
        if browse:
            typer.launch(f"{address}{door.new_ticket()}")  # others may see it in the process list

    desk = make_desk(bench, door=door, port=taken, max_upload=max_upload * 2**20)
    run(desk, held, ready=ready)


def serve(
    release: ReleasePath,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Port = 8000,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Name (with its port, unless usual) by which a proxy calls the page; "
            "may be repeated."
        ),
    ] = None,
    root_path: Annotated[
        str, typer.Option(help="Path under which a reverse proxy shows the page.")
    ] = "",
) -> None:
    """Show a release in a browser, to ask it questions; reads nothing else."""
    with needing("web", "the browser's page"):
        from hushtable.web.analyst import make_analyst_page  # noqa: PLC0415 - an extra
        from hushtable.web.security import LOOPBACK, own_names  # noqa: PLC0415
        from hushtable.web.server import listen, run  # noqa: PLC0415
    opened = ht.Release.load(release)
    held = listen(host, port)
    taken: int = held.getsockname()[1]
    # Shown to other machines, it may have any name, unless one was said.
    names = own_names(taken) | {each.lower() for each in name or ()}
    known = names if name or host in LOOPBACK else None
    named = f"[{host}]" if ":" in host else host
    address = f"http://{named}:{taken}{root_path}/"
    run(
        make_analyst_page(opened, names=known),
        held,
        root_path=root_path.rstrip("/"),
        ready=lambda: console.print(f"{release} is at {address}", highlight=False, soft_wrap=True),
    )
