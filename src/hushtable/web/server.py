"""Run the pages: on this machine, without a log of what is asked."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from hushtable.errors import ParameterError
from hushtable.web import words
from hushtable.web.security import LOOPBACK


def require_loopback(host: str, port: int) -> None:
    """Refuse to show the desk to other machines."""
    if host not in LOOPBACK:
        raise ParameterError(words.ONLY_LOOPBACK.format(host=host, port=port or 8000))


def listen(host: str, port: int) -> socket.socket:
    """Take a port; 0 takes any that is free."""
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
            "for any that is free."
        ) from None
    return held


def run(
    app: ASGIApp, held: socket.socket, *, root_path: str = "", ready: Callable[[], None]
) -> None:
    """Answer until interrupted.

    Parameters
    ----------
    app : ASGI application
        The pages.
    held : socket
        Where it listens.
    root_path : str
        The path under which a reverse proxy shows them.
    ready : callable
        Called before the first answer.
    """
    config = uvicorn.Config(
        app,
        root_path=root_path,
        access_log=False,  # addresses of the desk name projects
        log_level="error",
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=5,
        lifespan="on",
    )
    ready()
    uvicorn.Server(config).run(sockets=[held])
