"""``hushtable workbench``, ``serve`` and ``explore``: the web pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import hushtable as ht
from hushtable.cli.options import AsJson
from hushtable.cli.screen import console, one_bar, tell
from hushtable.errors import ParameterError
from hushtable.extras import needing

Port = Annotated[int, typer.Option(help="Port; 0 for any free port.", min=0, max=65535)]


def explore(
    release: Path,
    *,
    out: Annotated[Path, typer.Option("--out", "-o")] = Path("explore.html"),
    as_json: AsJson = False,
) -> None:
    """Write a page with answers of a release that works without server and network.

    Parameters
    ----------
    out
        New .html file.
    """
    from hushtable.files.writing import replace_whole, require_new  # noqa: PLC0415 - slow to import
    from hushtable.web.explorer_page import MAX_SETS, explorer_page  # noqa: PLC0415

    require_new(out)
    opened = ht.Release.load(release)
    with one_bar("computing answers") as progress:
        page = explorer_page(opened, progress, max_sets=MAX_SETS)
    replace_whole(out, page)
    tell(f"Wrote {out}: {len(page) / 2**20:.1f} MB. Open it in any browser.", as_json=as_json,
         file=str(out))  # fmt: skip


def mcp(releases: list[Path]) -> None:
    """Run a server for queries of releases by AI assistants (Model Context Protocol).

    Parameters
    ----------
    releases : RELEASE
        Release folders. Several.
    """
    with needing("mcp", "the server for assistants"):
        from hushtable.web.assistants import make_server  # noqa: PLC0415 - slow to import
    opened = {folder.resolve().name: ht.Release.load(folder) for folder in releases}
    if len(opened) < len(releases):
        raise ParameterError("two releases have the same name; rename a folder.")
    make_server(opened).run("stdio")


def workbench(
    folder: Path = Path(),
    *,
    data: list[Path] | None = None,
    host: str = "127.0.0.1",
    port: Port = 0,
    max_upload: Annotated[int, typer.Option(min=1)] = 512,
    browse: bool = True,
) -> None:
    """Open the custodian's workbench in a browser; only this machine can reach it.

    Parameters
    ----------
    folder : [FOLDER]
        Folder of the projects; default: the current folder.
    data
        Also allow reading tables from this folder. Repeatable.
    host
        Loopback address to listen on.
    max_upload
        Maximum size of an upload, in megabytes.
    browse
        Open the browser.
    """
    with needing("web", "the browser's page"):
        from hushtable.web.app import (  # noqa: PLC0415
            listen,
            make_workbench,
            require_loopback,
            run,
        )
        from hushtable.web.security import TokenGate  # noqa: PLC0415
        from hushtable.web.workbench import Workbench  # noqa: PLC0415
    require_loopback(host, port)
    bench = Workbench(folder, data_folders=data or ())
    held, gate = listen(host, port), TokenGate()
    taken: int = held.getsockname()[1]
    named = f"[{host}]" if ":" in host else host
    address = f"http://{named}:{taken}/?token="

    def ready() -> None:
        console.print(f"The workbench for {bench.folder} is at")
        console.print(f"  {address}{gate.token}", soft_wrap=True)
        console.print("Only this machine can open it. Press Ctrl-C to close it.")
        if browse:
            # Use a one-time ticket, since the process list is public.
            typer.launch(f"{address}{gate.new_ticket()}")

    app = make_workbench(bench, gate=gate, port=taken, max_upload=max_upload * 2**20)
    run(app, held, ready=ready)


def serve(
    release: Path,
    *,
    host: str = "127.0.0.1",
    port: Port = 8000,
    name: list[str] | None = None,
    root_path: str = "",
) -> None:
    """Serve the release explorer, to query a release in a browser; reads nothing else.

    Parameters
    ----------
    host
        Address to listen on.
    name
        Host name that a proxy uses for the page, with its port unless it is the default.
        Repeatable.
    root_path
        Path prefix that a reverse proxy uses for the page.
    """
    with needing("web", "the browser's page"):
        from hushtable.web.app import (  # noqa: PLC0415
            listen,
            make_release_explorer,
            run,
        )
        from hushtable.web.security import LOOPBACK, own_names  # noqa: PLC0415
    opened = ht.Release.load(release)
    held = listen(host, port)
    taken: int = held.getsockname()[1]
    # If other machines can reach the page, any host name is allowed unless --name is given.
    names = own_names(taken) | {each.lower() for each in name or ()}
    known = names if name or host in LOOPBACK else None
    named = f"[{host}]" if ":" in host else host
    address = f"http://{named}:{taken}{root_path}/"
    run(
        make_release_explorer(opened, names=known),
        held,
        root_path=root_path.rstrip("/"),
        ready=lambda: console.print(f"{release} is at {address}", soft_wrap=True),
    )
