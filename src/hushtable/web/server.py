"""HTTP server without an access log."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from hushtable.errors import ParameterError
from hushtable.web import words
from hushtable.web.security import LOOPBACK


def require_loopback(host: str, port: int) -> None:
    """Raise an error if the workbench would be visible to other machines."""
    if host not in LOOPBACK:
        raise ParameterError(words.ONLY_LOOPBACK.format(host=host, port=port or 8000))


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 selects any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
        held.listen(128)
    except OSError as error:
        held.close()
        raise ParameterError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another --port, or 0 "
            "for any free port."
        ) from None
    return held


def run(
    app: ASGIApp, held: socket.socket, *, root_path: str = "", ready: Callable[[], None]
) -> None:
    """Serve an application until interrupted.

    Parameters
    ----------
    app : ASGI application
        The application.
    held : socket
        Listening socket.
    root_path : str
        Path prefix of a reverse proxy.
    ready : callable
        Function that is called before the first request.
    """
    config = uvicorn.Config(
        app,
        root_path=root_path,
        access_log=False,  # addresses contain names of projects
        log_level="error",
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=5,
        lifespan="on",
    )
    ready()
    uvicorn.Server(config).run(sockets=[held])
